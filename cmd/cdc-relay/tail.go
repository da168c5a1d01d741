package main

import (
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/events"
)

func newTailCommand(a *app) *cobra.Command {
	var (
		tail            events.Tail
		output          outputFlag
		source, payload bool
	)
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print events as they are published",
		Long: `Print a line for each event that is published from now on: time, topic, key, type and ID. Without --topic it reads the
topics of the routes, as far as they exist.

With --source it reads the WAL or binlog, through a temporary slot on PostgreSQL, and prints what the relay would
publish. Neither uses or moves a position. Filters are combined; one that is repeated selects any of its values.`,
		Example: `  cdc-relay tail
  cdc-relay tail --type OrderPlaced --payload
  cdc-relay tail --source --key order-42 -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := tail.Filter.Check(); err != nil {
				return err
			}
			c, err := a.load()
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(a.stderr, nil))
			tail.Show = func(e *events.Event) error {
				if !payload {
					e.Value, e.ValueBase64 = nil, nil
				}
				if output.json() {
					return json.NewEncoder(a.stdout).Encode(e)
				}
				return a.printEvent(e)
			}
			if source {
				return tail.FromSource(cmd.Context(), c, log)
			}
			return tail.FromTopics(cmd.Context(), c, log)
		},
	}
	addFilter(cmd, &tail.Filter)
	output.add(cmd)
	cmd.Flags().StringArrayVar(&tail.Topics, "topic", nil, "events of this `topic` (may be repeated)")
	cmd.Flags().BoolVar(&source, "source", false, "read the WAL or binlog, not the topics")
	cmd.Flags().BoolVar(&payload, "payload", false, "print the payloads too")
	return cmd
}

func (a *app) printEvent(e *events.Event) error {
	line := eventLine(e.Time.UTC().Format("2006-01-02T15:04:05.000Z"), &e.Record)
	switch {
	case e.Value != nil:
		line += "  " + display.Escaped(*e.Value)
	case e.ValueBase64 != nil:
		line += fmt.Sprintf("  (%d bytes)", len(e.ValueBase64))
	}
	_, err := fmt.Fprintln(a.stdout, line)
	return err
}

// eventLine is an event on one line: time, topic, key, type and ID.
func eventLine(at string, r *events.Record) string {
	key := "-"
	if r.Key != nil {
		key = display.OneLine(*r.Key)
	}
	about := r.About
	return at + "  " + r.Topic + "  " + key + "  " + display.OneLine(about.Type) + "  " + display.OneLine(about.ID)
}

package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/inspect"
)

// handful is how many events are replayed unasked although nothing narrows them down.
const handful = 10

// replayCommand has the flags of the command.
type replayCommand struct {
	*cli
	inspect.Replay

	owner    ownerFlag
	dry, yes bool
}

func newReplayCommand(a *cli) *cobra.Command {
	r := replayCommand{cli: a, Replay: inspect.Replay{Printf: a.printf, Progress: a.stderr}}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Publish events from the outbox table once more",
		Long: `Publish events that are still in the outbox table once more, also those in partitions that retention has detached. The relay may run
meanwhile. Filters are combined; a filter that is repeated selects any of its values.

Events are published in order of creation (created_at, or see tables[].order_by; then event ID), one table after the other; where
transactions overlapped, that is not the order of commits. Records are like those of the relay, but for the header ` + inspect.HeaderReplayed + `,
ce_committime, which is created_at, and ce_sequence, which is absent.

It takes SELECT on the table: set ` + app.EnvOwner + ` to the connection string of the table's owner if the relay's role has none.

An interrupted replay leaves its state in a file; --resume goes on from there and repeats at most the last 1,000 events.`,
		Example: `  cdc-relay replay --id 0198c0de-0000-7000-8000-000000000001
  cdc-relay replay --key order-42 --topic orders.repair
  cdc-relay replay --type OrderPlaced --since 2026-01-02T00:00:00Z --until 2026-01-03T00:00:00Z --dry-run
  cdc-relay replay --resume`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd) },
	}
	for _, kind := range r.State.Filter.Kinds() {
		cmd.Flags().StringArrayVar(kind.Values, kind.Flag, nil, kind.Help+" (may be repeated)")
	}
	r.owner.add(cmd)
	flags := cmd.Flags()
	flags.TimeVar(&r.State.Filter.From, "since", time.Time{}, []string{time.RFC3339Nano}, "events created at or after this `time`, such as 2026-01-02T15:04:05Z")
	flags.TimeVar(&r.State.Filter.To, "until", time.Time{}, []string{time.RFC3339Nano}, "events created before this `time`")
	renamed(cmd, "from", "since")
	renamed(cmd, "to", "until")
	flags.StringVar(&r.State.Table, "table", "", "events of this `table` only")
	flags.StringVar(&r.State.Topic, "topic", "", "publish to this `topic`, which must exist, and not where routes say")
	flags.IntVar(&r.State.Rate, "rate", 0, "`events` per second (default no limit)")
	flags.BoolVar(&r.dry, "dry-run", false, "route the events, count them and show the first ten; publish nothing")
	flags.BoolVar(&r.Resume, "resume", false, "continue an interrupted replay")
	flags.StringVar(&r.File, "state", inspect.DefaultState, "`file` with the state of a replay that runs or was interrupted")
	flags.BoolVar(&r.yes, "yes", false, "replay all events without asking")
	return cmd
}

func (r *replayCommand) run(cmd *cobra.Command) error {
	if err := r.State.Filter.Check(); err != nil {
		return err
	}
	switch {
	case r.State.Rate < 0 || cmd.Flags().Changed("rate") && r.State.Rate == 0:
		return cdc.Usage("give the events per second, or leave it out", "--rate %d is not more than 0", r.State.Rate)
	case r.Resume && r.dry:
		return cdc.Usage("leave one out", "--resume publishes, --dry-run does not")
	}
	c, err := r.load()
	if err != nil {
		return err
	}
	tuneGC(r.env, int64(c.InFlight.Bytes))
	r.Owner = r.owner.given(r.cli)
	if r.dry {
		return r.show(cmd.Context(), c)
	}
	r.Given = unresumable(cmd)
	r.Confirm = func(total int64) error {
		if r.yes || !r.State.Filter.Empty() || total <= handful {
			return nil
		}
		return r.confirm("No filter is given: all "+display.Plural(int(total), "event")+" of the outbox would be published once more. Continue?", "nothing was published: replay not confirmed")
	}
	return r.Run(cmd.Context(), c)
}

// unresumable returns a flag that was given and that a replay which goes on cannot take; "" if there is none.
func unresumable(cmd *cobra.Command) (flag string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"resume", "state", "rate", "yes", "owner-dsn", "config"}, f.Name) {
			flag = f.Name
		}
	})
	return flag
}

// show prints the counts and the first ten events.
func (r *replayCommand) show(ctx context.Context, c *config.Config) error {
	dry, err := r.Dry(ctx, c)
	if err != nil {
		return err
	}
	r.printf("%s would be published%s\n", display.Plural(int(dry.Published), "event"), inspect.DroppedToo(dry.Dropped))
	for _, topic := range slices.Sorted(maps.Keys(dry.Topics)) {
		r.printf("%-8s %s: %d\n", "topic", topic, dry.Topics[topic])
	}
	for i := range dry.First {
		rec := &dry.First[i]
		r.printf("%s\n", eventLine(rec.About.CommitTime, rec))
	}
	return nil
}

// eventLine is an event on one line: time, topic, key, type and ID.
func eventLine(at string, r *inspect.Record) string {
	key := "-"
	if r.Key != nil {
		key = display.OneLine(*r.Key)
	}
	about := r.About
	return at + "  " + r.Topic + "  " + key + "  " + display.OneLine(about.Type) + "  " + display.OneLine(about.ID)
}

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/inspect"
)

func newEventCommand(a *cli) *cobra.Command {
	var (
		output outputFlag
		owner  ownerFlag
	)
	cmd := &cobra.Command{
		Use:   "event ID",
		Short: "Find one event: in the table, in Kafka, in the dead letters",
		Long: `Say what became of an event: whether it is in the table, or in what retention has detached from it; where its records are in
Kafka; and whether it is in the dead letters. It reads only.

The topic that the row is routed to now is searched, from the row's time on; without a row, the topics of routes, from the time in the ID
if that is a UUIDv7; all of them if that time is ahead of the clock. What cannot be known is called unknown: a row that was removed, a record that its topic has deleted.`,
		Example: "  cdc-relay event 018f4e3c-7a10-7cc0-8000-2c7d3b0f9a41",
		Args:    exactlyOne("the ID of an event"),
		RunE: a.withConfig(func(ctx context.Context, c *config.Config, args []string) error {
			found, err := inspect.Search(ctx, c, owner.given(a), args[0])
			if err != nil {
				return err
			}
			return output.print(a, found, func() { a.printFound(found) })
		}),
	}
	output.add(cmd)
	owner.add(cmd)
	return cmd
}

// printFound prints a line for each question.
func (a *cli) printFound(f *inspect.Found) {
	line := func(name, format string, args ...any) { a.printf("%-13s %s\n", name, fmt.Sprintf(format, args...)) }
	line("event", "%s", f.ID)
	for _, r := range f.Rows {
		line("table", "%s, created at %s: %s", r.Table, createdText(&r), routedTo(&r))
	}
	if len(f.Rows) == 0 {
		line("table", "not there: never committed, or removed since (unknown)")
	}
	for _, r := range f.Records {
		line("published", "%s, partition %d, offset %d, at %s%s", r.Topic, r.Partition, r.Offset, inspect.RFC3339(r.Time), when(r.Replayed, ", by a replay"))
	}
	switch {
	case len(f.Records) > 0:
	case len(f.NoID) > 0:
		line("published", "unknown: records of %s do not say which event they are of (format plain; a header made of event_id would)", strings.Join(f.NoID, ", "))
	case len(f.Searched) == 0:
		line("published", "unknown: no topic to search")
	default:
		line("published", "no record in %s", strings.Join(f.Searched, ", ")+when(!f.Since.IsZero(), " since "+inspect.RFC3339(f.Since)))
	}
	for _, l := range f.Letters {
		line("dead letter", "%s since %s: %s", l.Reason, inspect.RFC3339(l.Time), display.OrNone(display.Escaped(l.Error)))
	}
	switch {
	case len(f.Letters) > 0:
	case f.DeadLetters:
		line("dead letter", "no")
	default:
		line("dead letter", "no: the configuration has none")
	}
}

func createdText(r *inspect.FoundRow) string {
	if r.Created.IsZero() {
		return "a time that is no date of the years 1 to 9999"
	}
	return inspect.RFC3339(r.Created)
}

func routedTo(r *inspect.FoundRow) string {
	if r.Topic == "" {
		return "not routed: " + display.Escaped(r.Refused)
	}
	text := "goes to topic " + r.Topic
	if r.Partition != nil {
		text += fmt.Sprintf(", partition %d", *r.Partition)
	}
	if r.Key != nil {
		text += ", key " + display.OneLine(*r.Key)
	}
	return text
}

package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/events"
	"github.com/cdc-relay/cdc-relay/internal/stages"
)

func newDLQCommand(a *app) *cobra.Command {
	cmd := group("dlq", "List dead letters, publish them again, or drop them",
		newDLQListCommand(a), newDLQCountCommand(a), newDLQShowCommand(a), newDLQRetryCommand(a), newDLQDropCommand(a))
	cmd.Long = cmd.Short + `.

A dead letter is an event that could not be published, and for which the configuration says dead_letter, or a later event of its
key, which waits behind it (reason "held"). list, count and show only read Kafka. retry and drop ask the relay that leads: it does the
work in its own order, and the command waits and reports.`
	return cmd
}

// letterFilter are the flags that select letters.
type letterFilter struct{ deadletter.Filter }

func (f *letterFilter) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Key, "key", "", "letters of this record `key`")
	flags.StringVar(&f.Type, "type", "", "letters of this event `type`")
	flags.StringVar(&f.AggregateType, "aggregate-type", "", "letters of this aggregate `type`")
	flags.StringVar(&f.Topic, "topic", "", "letters for this `topic`")
	flags.StringVar(&f.Tenant, "tenant", "", "letters of this `tenant`")
	flags.StringVar(&f.Reason, "reason", "", "letters with this `reason`: unroutable, malformed, unknown_topic, too_large, rejected, held")
	flags.Var(&timeFlag{&f.From}, "from", "letters since this `time`, such as 2026-01-31T12:00:00Z")
	flags.Var(&timeFlag{&f.To}, "to", "letters before this `time`")
}

// desk is where the command looks at letters.
func (a *app) desk() (*deadletter.Desk, error) {
	c, err := a.load()
	if err != nil {
		return nil, err
	}
	if !c.DeadLetter.On() {
		return nil, cdc.Usage("set one of errors.* to dead_letter, or dead_letter.topic", "the configuration has no dead letters")
	}
	return stages.LetterDesk(c), nil
}

// find returns the letters that the flags select.
func (f *letterFilter) find(ctx context.Context, desk *deadletter.Desk, ids []string) ([]deadletter.Listed, deadletter.Read, error) {
	if !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To) {
		return nil, deadletter.Read{}, events.NotBefore(f.From, f.To)
	}
	f.IDs = ids
	list, read, err := desk.List(ctx, f.Filter)
	if err == nil && len(list) == 0 && len(ids) > 0 {
		err = cdc.Fixable("see `cdc-relay dlq list`", "no dead letter has the ID %s", strings.Join(ids, " or "))
	}
	return list, read, err
}

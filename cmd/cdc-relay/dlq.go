package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/dlq"
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
type letterFilter struct {
	dlq.Filter

	from, to string
}

func (f *letterFilter) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Key, "key", "", "letters of this record `key`")
	flags.StringVar(&f.Type, "type", "", "letters of this event `type`")
	flags.StringVar(&f.AggregateType, "aggregate-type", "", "letters of this aggregate `type`")
	flags.StringVar(&f.Topic, "topic", "", "letters for this `topic`")
	flags.StringVar(&f.Tenant, "tenant", "", "letters of this `tenant`")
	flags.StringVar(&f.Reason, "reason", "", "letters with this `reason`: unroutable, malformed, unknown_topic, too_large, rejected, held")
	flags.StringVar(&f.from, "from", "", "letters since this `time`, such as 2026-01-31T12:00:00Z")
	flags.StringVar(&f.to, "to", "", "letters before this `time`")
}

// parse takes the arguments, which are IDs, and the times.
func (f *letterFilter) parse(ids []string) error {
	f.IDs = ids
	for _, t := range []struct {
		flag, text string
		at         *time.Time
	}{{"from", f.from, &f.From}, {"to", f.to, &f.To}} {
		if t.text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, t.text)
		if err != nil {
			return usage("give date, time and zone, such as 2026-01-31T12:00:00Z", "--%s: %q is not a time", t.flag, t.text)
		}
		*t.at = at
	}
	return nil
}

// desk is where the command looks at letters.
func (a *app) desk() (*dlq.Desk, *config.Config, error) {
	c, err := a.load()
	if err != nil {
		return nil, nil, err
	}
	if !c.DeadLetter.On() {
		return nil, nil, usage("set one of errors.* to dead_letter, or dead_letter.topic", "the configuration has no dead letters")
	}
	conn, err := kafkaOptions(c)
	if err != nil {
		return nil, nil, err
	}
	return &dlq.Desk{Kafka: conn, Topic: c.DeadLetter.Topic, Index: c.DeadLetter.Index()}, c, nil
}

// find returns the letters that the flags select, and the offset behind what it has read.
func (f *letterFilter) find(ctx context.Context, desk *dlq.Desk, ids []string) ([]dlq.Listed, int64, error) {
	if err := f.parse(ids); err != nil {
		return nil, 0, err
	}
	list, end, err := desk.List(ctx, f.Filter)
	if err == nil && len(list) == 0 && len(ids) > 0 {
		err = cdc.Fixable("see `cdc-relay dlq list`", "no dead letter has the ID %s", strings.Join(ids, " or "))
	}
	return list, end, err
}

package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/dlq"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
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

// select returns the letters that the flags select; to select none is an error, because nothing would be done.
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

func newDLQListCommand(a *app) *cobra.Command {
	var (
		f      letterFilter
		output outputFlag
		limit  int
		after  string
	)
	cmd := &cobra.Command{
		Use:     "list [ID...]",
		Short:   "List dead letters, the oldest first",
		Example: "  cdc-relay dlq list --reason too_large\n  cdc-relay dlq list --limit 1000 -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			desk, _, err := a.desk()
			if err != nil {
				return err
			}
			list, _, err := f.find(cmd.Context(), desk, args)
			if err != nil {
				return err
			}
			return a.printLetters(list, after, limit, output.json())
		},
	}
	f.add(cmd)
	output.add(cmd)
	cmd.Flags().IntVar(&limit, "limit", 100, "the `number` of letters to list")
	cmd.Flags().StringVar(&after, "after", "", "list those after this `letter`, the last one of the page before")
	return cmd
}

func (a *app) printLetters(list []dlq.Listed, after string, limit int, asJSON bool) error {
	page := list
	if i := slices.IndexFunc(list, func(l dlq.Listed) bool { return l.Letter == after }); i >= 0 {
		page = list[i+1:]
	}
	more := max(0, len(page)-limit)
	page = page[:len(page)-more]
	if asJSON {
		if page == nil {
			page = []dlq.Listed{}
		}
		return printJSON(a.stdout, page)
	}
	for i := range page {
		l := &page[i]
		a.printf("%s  %s\n    %s, key %s, topic %s, attempts %d: %s\n", l.Time.UTC().Format(time.RFC3339), l.Letter,
			l.Reason, orNone(l.Key), orNone(l.Topic), l.Attempts, orNone(l.Error))
	}
	if more > 0 {
		a.printf("and %s more: --after %q lists them\n", plural(more, "letter"), page[len(page)-1].Letter)
	} else {
		a.printf("%s\n", plural(len(list), "dead letter"))
	}
	return nil
}

func newDLQCountCommand(a *app) *cobra.Command {
	var (
		f      letterFilter
		output outputFlag
	)
	cmd := &cobra.Command{
		Use:     "count [ID...]",
		Short:   "Count dead letters by reason",
		Example: "  cdc-relay dlq count --from 2026-01-31T00:00:00Z",
		RunE: func(cmd *cobra.Command, args []string) error {
			desk, _, err := a.desk()
			if err != nil {
				return err
			}
			list, _, err := f.find(cmd.Context(), desk, args)
			if err != nil {
				return err
			}
			counts := dlq.Counts(list)
			if output.json() {
				return printJSON(a.stdout, counts)
			}
			for _, reason := range dlq.Reasons(counts) {
				a.printf("%-14s %d\n", reason, counts[reason])
			}
			a.printf("%-14s %d\n", "all", len(list))
			return nil
		},
	}
	f.add(cmd)
	output.add(cmd)
	return cmd
}

// shownLetter is a letter with its record.
type shownLetter struct {
	dlq.Listed

	Headers map[string]string `json:"headers"`
	// Payload is text, and PayloadBytes other bytes; neither is NULL or, in a stub, left out.
	Payload      *string `json:"payload,omitempty"`
	PayloadBytes []byte  `json:"payload_base64,omitempty"`
	Row          deadletter.Row
}

func newDLQShowCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Print all that is known of a dead letter, with its payload, as JSON",
		Example: "  cdc-relay dlq show 018f4e3c-7a10-7cc0-8000-2c7d3b0f9a41",
		Args:    exactlyOne("the ID of an event or of a letter"),
		RunE: func(cmd *cobra.Command, args []string) error {
			desk, _, err := a.desk()
			if err != nil {
				return err
			}
			var f letterFilter
			list, _, err := f.find(cmd.Context(), desk, args)
			if err != nil {
				return err
			}
			for i := range list {
				if err := a.showLetter(cmd.Context(), desk, &list[i]); err != nil {
					return err
				}
			}
			return nil
		},
	}
	return cmd
}

func (a *app) showLetter(ctx context.Context, desk *dlq.Desk, l *dlq.Listed) error {
	letter, err := desk.Show(ctx, l)
	if err != nil {
		return err
	}
	s := shownLetter{Listed: *l, Headers: map[string]string{}, Row: letter.Row}
	for _, h := range letter.Headers {
		s.Headers[string(h.Key)] = string(h.Value)
	}
	if text := string(letter.Payload); letter.Payload != nil && utf8.ValidString(text) {
		s.Payload = &text
	} else {
		s.PayloadBytes = letter.Payload
	}
	return printJSON(a.stdout, s)
}

func newDLQRetryCommand(a *app) *cobra.Command {
	r := resolution{app: a, do: deadletter.Retry}
	cmd := &cobra.Command{
		Use:   "retry [ID...]",
		Short: "Publish dead letters again",
		Long: `Ask the relay to publish dead letters again, with the configuration that it runs with now. A letter is published after those
of its key that are before it: if one of them is not among the chosen and cannot be published itself, this one stays. Letters that only
wait (reason "held") follow by themselves. The event ID stays the same.`,
		Example: "  cdc-relay dlq retry 018f4e3c-7a10-7cc0-8000-2c7d3b0f9a41\n  cdc-relay dlq retry --reason too_large --yes",
		RunE:    r.run,
	}
	r.add(cmd)
	return cmd
}

func newDLQDropCommand(a *app) *cobra.Command {
	r := resolution{app: a, do: deadletter.Drop}
	cmd := &cobra.Command{
		Use:   "drop [ID...]",
		Short: "Drop dead letters: they are never published",
		Long: `Ask the relay to drop dead letters. Exactly the chosen ones are dropped; those that wait behind them are published then. It
waits until the relay's saved position is behind them, so that a restart does not bring them back.`,
		Example: "  cdc-relay dlq drop 018f4e3c-7a10-7cc0-8000-2c7d3b0f9a41\n  cdc-relay dlq drop --topic orders --to 2026-01-31T00:00:00Z --dry-run",
		RunE:    r.run,
	}
	r.add(cmd)
	return cmd
}

// resolution is a run of retry or drop.
type resolution struct {
	app           *app
	do            string
	filter        letterFilter
	all, yes, dry bool
}

func (r *resolution) add(cmd *cobra.Command) {
	r.filter.add(cmd)
	cmd.Flags().BoolVar(&r.all, "all", false, "choose every letter")
	cmd.Flags().BoolVar(&r.yes, "yes", false, "choose more than one letter without a question")
	cmd.Flags().BoolVar(&r.dry, "dry-run", false, "count and list what is chosen; ask for nothing")
}

func (r *resolution) run(cmd *cobra.Command, args []string) error {
	desk, c, err := r.app.desk()
	if err != nil {
		return err
	}
	list, end, err := r.filter.find(cmd.Context(), desk, args)
	if err != nil {
		return err
	}
	switch {
	case r.filter.Empty() && !r.all:
		return usage("give an ID, a filter, or --all", "nothing says which letters to %s", r.do)
	case len(list) == 0:
		return cdc.Fixable("see `cdc-relay dlq list`", "no dead letter matches")
	case r.dry:
		return r.app.printLetters(list, "", 10, false)
	}
	if err := r.confirm(len(list)); err != nil {
		return err
	}
	return r.ask(cmd.Context(), desk, c, list, end)
}

// confirm asks before more than one letter is resolved.
func (r *resolution) confirm(n int) error {
	if n == 1 || r.yes {
		return nil
	}
	r.app.printf("%s %s? [y/N] ", r.do, plural(n, "dead letter"))
	var answer string
	_, _ = fmt.Fscanln(r.app.stdin, &answer)
	if answer != "y" && answer != "yes" {
		return usage("answer y, or give --yes", "nothing was done: %s not confirmed", r.do)
	}
	return nil
}

// ask asks the leader for some letters after the other.
func (r *resolution) ask(ctx context.Context, desk *dlq.Desk, c *config.Config, list []dlq.Listed, end int64) error {
	write, closeAll, err := indexWriter(ctx, c)
	if err != nil {
		return err
	}
	defer closeAll()
	desk.Write = write
	var done, failed int
	for some := range slices.Chunk(list, deadletter.MaxAsked) {
		ids := make([]string, len(some))
		for i := range some {
			ids[i] = some[i].Letter
		}
		waits := ""
		answer, err := desk.Ask(ctx, r.do, ids, end, func(a *deadletter.Ask) {
			if a.Waits != "" && a.Waits != waits {
				r.app.printf("waiting: %s\n", a.Waits)
			}
			waits = a.Waits
		})
		if err != nil {
			return err
		}
		done, failed = done+answer.Done, failed+answer.Failed
	}
	r.app.printf("%s: %s\n", map[string]string{deadletter.Retry: "published", deadletter.Drop: "dropped"}[r.do], plural(done, "letter"))
	if failed > 0 {
		return cdc.Fixable("see the reasons with `cdc-relay dlq list`, and fix them", "%s could not be published, or are behind such a one", plural(failed, "letter"))
	}
	return nil
}

// indexWriter returns what writes a record into the index of dead letters. It has no transactional ID: it must not fence the
// relay.
func indexWriter(ctx context.Context, c *config.Config) (func(ctx context.Context, key, value []byte) error, func(), error) {
	o, err := publisherOptions(c)
	if err != nil {
		return nil, nil, err
	}
	o.PositionTopic, o.TransactionalID, o.Create = "", kafka.TransactionalNone, nil
	p, err := publisher.New(o, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, nil, err
	}
	if err := openPatiently(ctx, p, ""); err != nil {
		return nil, nil, err
	}
	seq := uint64(0)
	write := func(ctx context.Context, key, value []byte) error {
		seq++
		m := cdc.Message{Topic: c.DeadLetter.Index(), Key: key, Value: value}
		if err := p.Send(ctx, &cdc.Routed{Batch: &cdc.Batch{Seq: seq}, Messages: []cdc.Message{m}}); err != nil {
			return err
		}
		select {
		case d := <-p.Durable():
			return d.Err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return write, p.Kill, nil
}

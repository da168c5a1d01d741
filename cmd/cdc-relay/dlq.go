package main

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/inspect"
)

func newDLQCommand(a *cli) *cobra.Command {
	cmd := group("dlq", "List dead letters, publish them again, or drop them",
		newDLQListCommand(a), newDLQCountCommand(a), newDLQShowCommand(a), newDLQRetryCommand(a), newDLQDropCommand(a))
	cmd.Long = cmd.Short + `.

A dead letter is an event that could not be published, and for which the configuration says dead_letter, or a later event of its
key (reason "held"). list and show only read Kafka; retry and drop ask the relay that leads, and wait for it.`
	return cmd
}

// letterFilter are the flags that select letters.
type letterFilter struct {
	deadletter.Filter

	is map[string]*string // what facets were given
}

func (f *letterFilter) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.is = map[string]*string{
		"key":            flags.String("key", "", "only this record `key`"),
		"type":           flags.String("type", "", "only this event `type`"),
		"aggregate-type": flags.String("aggregate-type", "", "only this aggregate `type`"),
		"topic":          flags.String("topic", "", "only this `topic`"),
		"tenant":         flags.String("tenant", "", "only this `tenant`"),
		"reason":         flags.String("reason", "", "only this `reason`: unroutable, malformed, unknown_topic, too_large, rejected, held"),
	}
	flags.TimeVar(&f.From, "since", time.Time{}, []string{time.RFC3339Nano}, "only since this `time`, such as 2026-01-31T12:00:00Z")
	flags.TimeVar(&f.To, "until", time.Time{}, []string{time.RFC3339Nano}, "only before this `time`")
	renamed(cmd, "from", "since")
	renamed(cmd, "to", "until")
}

// withDesk is the action of a command that looks at letters.
func (a *cli) withDesk(fn func(ctx context.Context, desk *deadletter.Desk, ids []string) error) func(*cobra.Command, []string) error {
	return a.withConfig(func(ctx context.Context, c *config.Config, ids []string) error {
		if !c.DeadLetter.On() {
			return cdc.Usage("set one of errors.* to dead_letter, or dead_letter.topic", "the configuration has no dead letters")
		}
		return fn(ctx, app.LetterDesk(c), ids)
	})
}

// find returns the letters that the flags select.
func (f *letterFilter) find(ctx context.Context, desk *deadletter.Desk, ids []string) ([]deadletter.Listed, int64, error) {
	if err := inspect.CheckTimes(f.From, f.To); err != nil {
		return nil, 0, err
	}
	f.IDs, f.Is = ids, map[string]string{}
	for facet, is := range f.is {
		if *is != "" {
			f.Is[facet] = *is
		}
	}
	list, end, err := desk.List(ctx, f.Filter)
	if err == nil && len(list) == 0 && len(ids) > 0 {
		err = cdc.Fixable("see `cdc-relay dlq list`", "no dead letter has the ID %s", strings.Join(ids, " or "))
	}
	return list, end, err
}

func newDLQListCommand(a *cli) *cobra.Command {
	var (
		f      letterFilter
		output outputFlag
		limit  int
		count  bool
		by     string
	)
	cmd := &cobra.Command{
		Use:     "list [ID...]",
		Short:   "List dead letters, the oldest first",
		Example: "  cdc-relay dlq list --reason too_large\n  cdc-relay dlq list --limit 1000 -o json",
	}
	cmd.RunE = a.withDesk(func(ctx context.Context, desk *deadletter.Desk, ids []string) error {
		if limit < 1 {
			return cdc.Usage("give 1 or more", "--limit is %d", limit)
		}
		list, _, err := f.find(ctx, desk, ids)
		if err != nil {
			return err
		}
		if count || cmd.Flags().Changed("by") {
			counts := deadletter.Counts(list, deadletter.Facets()[by])
			return output.print(a, counts, func() { a.printCounts(counts, len(list)) })
		}
		return output.print(a, append([]deadletter.Listed{}, list[:min(limit, len(list))]...), func() { a.printLetters(list, limit) })
	})
	f.add(cmd)
	output.add(cmd)
	cmd.Flags().BoolVar(&count, "count", false, "count them, by reason or --by")
	addChoice(cmd, &by, "by", "count by this", "reason", "cause")
	cmd.Flags().IntVar(&limit, "limit", 100, "the `number` to list")
	return cmd
}

// printLetters prints so many letters, and how many more there are.
func (a *cli) printLetters(list []deadletter.Listed, limit int) {
	page := list[:min(limit, len(list))]
	for i := range page {
		l := &page[i]
		a.printf("%s  %s  %s, key %s, topic %s, attempts %d: %s\n", l.Time.UTC().Format(time.RFC3339), display.Escaped(l.Letter),
			l.Reason, display.OrNone(display.Escaped(l.Key)), display.OrNone(display.Escaped(l.Topic)), l.Attempts, display.OrNone(display.Escaped(l.Error)))
	}
	if more := len(list) - len(page); more > 0 {
		a.printf("and %s more\n", display.Plural(more, "dead letter"))
	} else {
		a.printf("%s\n", display.Plural(len(list), "dead letter"))
	}
}

// printCounts prints how many letters there are for each reason or cause.
func (a *cli) printCounts(counts map[string]int, all int) {
	for _, group := range deadletter.Groups(counts) {
		a.printf("%-14s %d\n", display.Escaped(group), counts[group])
	}
	a.printf("%-14s %d\n", "all", all)
}

func newDLQCountCommand(a *cli) *cobra.Command {
	cmd := newDLQListCommand(a)
	cmd.Use, cmd.Hidden, cmd.Annotations = "count [ID...]", true, map[string]string{successor: "dlq list --count"}
	_ = cmd.Flags().Set("count", "true") // there is such a flag
	return cmd
}

// shownLetter is a letter with its record.
type shownLetter struct {
	deadletter.Listed

	Headers map[string]string `json:"headers"`
	// Payload is text, and PayloadBytes other bytes; neither is NULL or, in a stub, left out.
	Payload      *string `json:"payload,omitempty"`
	PayloadBytes []byte  `json:"payload_base64,omitempty"`
	Row          deadletter.Row
}

func newDLQShowCommand(a *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Print all that is known of a dead letter, with its payload, as JSON",
		Example: "  cdc-relay dlq show 018f4e3c-7a10-7cc0-8000-2c7d3b0f9a41",
		Args:    exactlyOne("the ID of an event or of a dead letter"),
		RunE: a.withDesk(func(ctx context.Context, desk *deadletter.Desk, ids []string) error {
			var f letterFilter
			list, _, err := f.find(ctx, desk, ids)
			for i := range list {
				if err == nil {
					err = a.showLetter(ctx, desk, &list[i])
				}
			}
			return err
		}),
	}
}

func (a *cli) showLetter(ctx context.Context, desk *deadletter.Desk, l *deadletter.Listed) error {
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

func newDLQRetryCommand(a *cli) *cobra.Command {
	r := resolution{cli: a, do: deadletter.Retry}
	cmd := &cobra.Command{
		Use:   "retry [ID...]",
		Short: "Publish dead letters again",
		Long: `Ask the relay to publish dead letters again, with the configuration that it runs with now; the event ID stays the same. One that
comes after another of its key waits for it. Letters that are held (reason "held") follow by themselves.`,
		Example: "  cdc-relay dlq retry 018f4e3c-7a10-7cc0-8000-2c7d3b0f9a41\n  cdc-relay dlq retry --reason too_large --yes",
		RunE:    a.withDesk(r.run),
	}
	r.add(cmd)
	return cmd
}

func newDLQDropCommand(a *cli) *cobra.Command {
	r := resolution{cli: a, do: deadletter.Drop}
	cmd := &cobra.Command{
		Use:   "drop [ID...]",
		Short: "Drop dead letters: they are never published",
		Long: `Ask the relay to drop dead letters, and wait until it has. Exactly the chosen ones are dropped, and never published, whatever
becomes of the relay; those that wait for them are published then.`,
		Example: "  cdc-relay dlq drop 018f4e3c-7a10-7cc0-8000-2c7d3b0f9a41\n  cdc-relay dlq drop --topic orders --until 2026-01-31T00:00:00Z --dry-run",
		RunE:    a.withDesk(r.run),
	}
	r.add(cmd)
	return cmd
}

// resolution is a run of retry or drop.
type resolution struct {
	cli           *cli
	do            string
	filter        letterFilter
	all, yes, dry bool
}

func (r *resolution) add(cmd *cobra.Command) {
	r.filter.add(cmd)
	cmd.Flags().BoolVar(&r.all, "all", false, "choose all")
	cmd.Flags().BoolVar(&r.yes, "yes", false, "do not ask, also when several are chosen")
	cmd.Flags().BoolVar(&r.dry, "dry-run", false, "count and list what is chosen; ask for nothing")
}

func (r *resolution) run(ctx context.Context, desk *deadletter.Desk, ids []string) error {
	list, end, err := r.filter.find(ctx, desk, ids)
	if err != nil {
		return err
	}
	switch {
	case r.filter.Empty() && !r.all:
		return cdc.Usage("give an ID, a filter, or --all", "nothing says which dead letters to %s", r.do)
	case len(list) == 0:
		return cdc.Fixable("see `cdc-relay dlq list`", "no dead letter matches")
	case r.dry:
		r.cli.printLetters(list, 10)
		return nil
	}
	if len(list) > 1 && !r.yes {
		if err := r.cli.confirm(r.do+" "+display.Plural(len(list), "dead letter")+"?", "nothing was done: "+r.do+" not confirmed"); err != nil {
			return err
		}
	}
	failed, err := r.ask(ctx, desk, list, end)
	if err != nil || failed == 0 {
		return err
	}
	return cdc.Fixable("see why with `cdc-relay dlq list`, and correct that", "%s could not be published, or wait for one that cannot", display.Plural(failed, "dead letter"))
}

// ask asks the leader, and returns how many letters could not be published.
func (r *resolution) ask(ctx context.Context, desk *deadletter.Desk, list []deadletter.Listed, end int64) (failed int, err error) {
	result, err := desk.Ask(ctx, r.do, list, end, func(why string) { r.cli.printf("waiting: %s\n", why) })
	if result.Asked && err != nil && ctx.Err() != nil {
		r.cli.printf("the request is withdrawn: what the relay has begun it ends, nothing else is done\n")
	}
	if err != nil {
		return 0, err
	}
	r.cli.printf("%s: %s\n", map[string]string{deadletter.Retry: "published", deadletter.Drop: "dropped"}[r.do], display.Plural(result.Done, "dead letter"))
	if result.Before > 0 && r.do == deadletter.Drop {
		return 0, cdc.Fixable("see with `cdc-relay event ID` whether it was published", "%s not dropped: the relay published them, or another command resolved them, before it took the request", display.Plural(result.Before, "dead letter"))
	}
	if result.Before > 0 {
		r.cli.printf("resolved before: %s, by another command or by the relay\n", display.Plural(result.Before, "dead letter"))
	}
	switch {
	case result.Failed > 0 && result.Skipped > 0:
		r.cli.printf("dropped: %s, because errors.skip lists the events\n", display.Plural(result.Skipped, "dead letter"))
	case result.Skipped > 0:
		return 0, skippedError(list, result.Skipped)
	}
	return result.Failed, nil
}

// skippedError says that n letters of a retry were not published, because of errors.skip.
func skippedError(list []deadletter.Listed, n int) error {
	id := "ID"
	if len(list) == 1 {
		id = deadletter.Quoted(list[0].ID)
	}
	return cdc.Fixable("to publish it after all, remove its ID from errors.skip, restart the relay, and run `cdc-relay replay --id "+id+"`",
		"%s dropped and not published: errors.skip lists the event", display.Plural(n, "dead letter"))
}

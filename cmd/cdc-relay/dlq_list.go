package main

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/display"
)

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
			if limit < 1 {
				return cdc.Usage("give 1 or more", "--limit is %d", limit)
			}
			list, err := a.letters(cmd.Context(), &f, args)
			if err != nil {
				return err
			}
			if list, err = deadletter.After(list, after); err != nil {
				return err
			}
			if output.json() {
				return printJSON(a.stdout, append([]deadletter.Listed{}, list[:min(limit, len(list))]...))
			}
			if rest := a.printLetters(list, limit); rest > 0 {
				a.printf("--after %q lists them\n", list[limit-1].Letter)
			}
			return nil
		},
	}
	f.add(cmd)
	output.add(cmd)
	cmd.Flags().IntVar(&limit, "limit", 100, "the `number` of letters to list")
	cmd.Flags().StringVar(&after, "after", "", "list those after this `letter`, the last one of the page before")
	return cmd
}

// letters returns those that the flags select.
func (a *app) letters(ctx context.Context, f *letterFilter, ids []string) ([]deadletter.Listed, error) {
	desk, err := a.desk()
	if err != nil {
		return nil, err
	}
	list, _, err := f.find(ctx, desk, ids)
	return list, err
}

// printLetters prints so many letters, and returns how many more there are.
func (a *app) printLetters(list []deadletter.Listed, limit int) (more int) {
	page := list[:min(limit, len(list))]
	for i := range page {
		l := &page[i]
		a.printf("%s  %s\n    %s, key %s, topic %s, attempts %d: %s\n", l.Time.UTC().Format(time.RFC3339), display.Visible(l.Letter),
			l.Reason, display.OrNone(display.Visible(l.Key)), display.OrNone(display.Visible(l.Topic)), l.Attempts, display.OrNone(display.Visible(l.Error)))
	}
	if more = len(list) - len(page); more > 0 {
		a.printf("and %s more\n", display.Plural(more, "letter"))
	} else {
		a.printf("%s\n", display.Plural(len(list), "dead letter"))
	}
	return more
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
			list, err := a.letters(cmd.Context(), &f, args)
			if err != nil {
				return err
			}
			counts := deadletter.Counts(list)
			if output.json() {
				return printJSON(a.stdout, counts)
			}
			for _, reason := range deadletter.Reasons(counts) {
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
	deadletter.Listed

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
			desk, err := a.desk()
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

func (a *app) showLetter(ctx context.Context, desk *deadletter.Desk, l *deadletter.Listed) error {
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

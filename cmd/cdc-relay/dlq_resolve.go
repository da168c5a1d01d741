package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/display"
)

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
	desk, err := r.app.desk()
	if err != nil {
		return err
	}
	list, read, err := r.filter.find(cmd.Context(), desk, args)
	if err != nil {
		return err
	}
	switch {
	case r.filter.Empty() && !r.all:
		return cdc.Usage("give an ID, a filter, or --all", "nothing says which letters to %s", r.do)
	case len(list) == 0:
		return cdc.Fixable("see `cdc-relay dlq list`", "no dead letter matches")
	case r.dry:
		r.app.printLetters(list, 10)
		return nil
	}
	if err := r.confirm(len(list)); err != nil {
		return err
	}
	return r.ask(cmd.Context(), desk, list, read)
}

// confirm asks before more than one letter is resolved.
func (r *resolution) confirm(n int) error {
	if n == 1 || r.yes {
		return nil
	}
	r.app.printf("%s %s? [y/N] ", r.do, display.Plural(n, "dead letter"))
	var answer string
	_, _ = fmt.Fscanln(r.app.stdin, &answer)
	if answer != "y" && answer != "yes" {
		return cdc.Usage("answer y, or give --yes", "nothing was done: %s not confirmed", r.do)
	}
	return nil
}

// ask asks the leader.
func (r *resolution) ask(ctx context.Context, desk *deadletter.Desk, list []deadletter.Listed, read deadletter.Read) error {
	result, err := desk.Ask(ctx, r.do, list, read, func(why string) { r.app.printf("waiting: %s\n", why) })
	if result.Asked && err != nil && ctx.Err() != nil {
		r.app.printf("the request is withdrawn: what the relay has begun it ends, nothing else is done\n")
	}
	if err != nil {
		return err
	}
	r.app.printf("%s: %s\n", map[string]string{deadletter.Retry: "published", deadletter.Drop: "dropped"}[r.do], display.Plural(result.Done, "letter"))
	if result.Before > 0 {
		r.app.printf("resolved before: %s, by another command or by the relay\n", display.Plural(result.Before, "letter"))
	}
	switch {
	case result.Failed > 0 && result.Skipped > 0:
		r.app.printf("dropped: %s, because errors.skip lists the events\n", display.Plural(result.Skipped, "letter"))
	case result.Skipped > 0:
		return skippedError(list, result.Skipped)
	}
	if result.Failed > 0 {
		return cdc.Fixable("see the reasons with `cdc-relay dlq list`, and fix them", "%s could not be published, or are behind such a one", display.Plural(result.Failed, "letter"))
	}
	return nil
}

// skippedError says that n letters of a retry were not published, because of errors.skip.
func skippedError(list []deadletter.Listed, n int) error {
	id := "ID"
	if len(list) == 1 {
		id = deadletter.Quoted(list[0].ID)
	}
	return cdc.Fixable("to publish it after all, take its ID out of errors.skip, restart the relay, and run `cdc-relay replay --id "+id+"`",
		"%s dropped and not published: errors.skip lists the event", display.Plural(n, "letter"))
}

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/provision"
)

func newCheckCommand(a *cli) *cobra.Command {
	var output outputFlag
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Verify that everything a run needs is there",
		Long: `Verify that everything a run needs is there, with each server and as run uses it, and change nothing. Each finding is one line with
its fix. The exit code is 3 if any finding is a failure; warnings do not fail.`,
		Example: "  cdc-relay check\n  cdc-relay check -o json",
		Args:    noArgs,
		RunE: a.withConfig(func(ctx context.Context, c *config.Config, _ []string) error {
			r, err := provision.Check(ctx, c)
			if err != nil {
				return err
			}
			if err = output.print(a, r, func() { a.printReport(&r) }); err == nil && !r.OK {
				err = errCheckFailed
			}
			return err
		}),
	}
	output.add(cmd)
	return cmd
}

func (a *cli) printReport(r *provision.Report) {
	found := map[cdc.Severity]int{}
	for _, f := range r.Findings {
		found[f.Severity]++
		a.printf("%s\n", f)
	}
	result := "check passed"
	if !r.OK {
		result = "check failed"
	}
	a.printf("\n%s: %s, %s\n", result, display.Plural(found[cdc.SeverityFail], "failure"), display.Plural(found[cdc.SeverityWarn], "warning"))
}

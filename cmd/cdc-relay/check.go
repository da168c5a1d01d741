package main

import (
	"context"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/finding"
	"github.com/cdc-relay/cdc-relay/internal/position"
	"github.com/cdc-relay/cdc-relay/internal/source"
	"github.com/cdc-relay/cdc-relay/internal/stages"
)

func newCheckCommand(a *app) *cobra.Command {
	var output outputFlag
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Verify that everything a run needs is there",
		Long: `Verify that everything a run needs is there, and change nothing: connect to the database as run does, also for
replication, inspect its settings, tables, publication and slot, ask Kafka for the topics as the producer does,
test that the checkpoint store can be read and written, and compare the positions.

Each finding is one line with its fix. The exit code is 3 if any finding is a failure; warnings do not fail.`,
		Example: "  cdc-relay check\n  cdc-relay check -o json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load()
			if err != nil {
				return err
			}
			return runCheck(cmd.Context(), a, c, output.json())
		},
	}
	output.add(cmd)
	return cmd
}

// check is one run of the command.
type check struct {
	config *config.Config
	db     source.Database
	store  *position.Places
}

// report is the JSON form of a check.
type report struct {
	OK       bool              `json:"ok"`
	Findings []finding.Finding `json:"findings"`
}

func runCheck(ctx context.Context, a *app, c *config.Config, asJSON bool) error {
	db, err := source.New(c)
	if err != nil {
		return err
	}
	found := (&check{config: c, db: db}).all(ctx)
	failures := count(found, finding.Fail)
	if asJSON {
		if err := printJSON(a.stdout, report{failures == 0, found}); err != nil {
			return err
		}
	} else {
		a.printFindings(found, failures)
	}
	if failures > 0 {
		return errCheckFailed
	}
	return nil
}

func (a *app) printFindings(found []finding.Finding, failures int) {
	for _, f := range found {
		a.printf("%s\n", f)
	}
	result := "check passed"
	if failures > 0 {
		result = "check failed"
	}
	a.printf("\n%s: %s, %s\n", result, display.Plural(failures, "failure"), display.Plural(count(found, finding.Warn), "warning"))
}

func count(found []finding.Finding, s finding.Severity) int {
	n := 0
	for _, f := range found {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// all checks configuration, database, Kafka and checkpoint store concurrently, and lists the findings in that order.
func (c *check) all(ctx context.Context) []finding.Finding {
	store, err := stages.Places(ctx, c.config)
	if err != nil {
		return []finding.Finding{finding.Failed("checkpoint", err)}
	}
	defer func() { _ = store.Close() }()
	c.store = store
	var parts [4][]finding.Finding
	var wg sync.WaitGroup
	for i, part := range []func(context.Context) []finding.Finding{c.checkConfig, c.checkDatabase, c.checkKafka, store.Check} {
		wg.Go(func() { parts[i] = part(ctx) })
	}
	wg.Wait()
	return slices.Concat(parts[:]...)
}

func (c *check) checkConfig(context.Context) []finding.Finding {
	var found []finding.Finding
	for _, w := range c.config.Warnings() {
		found = append(found, finding.Finding{Severity: finding.Warn, Subject: "configuration", Text: w.Text, Fix: w.Fix})
	}
	return found
}

func (c *check) checkDatabase(ctx context.Context) []finding.Finding {
	found, tables := c.db.Check(ctx, c.store.Resume)
	if tables != nil {
		found = append(append(found, c.checkRows(ctx)...), c.recordFindings(ctx)...)
	}
	return append(found, c.checkTables(tables)...)
}

// checkTables verifies that the tables have the columns that the router needs.
func (c *check) checkTables(tables map[string]*cdc.Table) []finding.Finding {
	router, err := stages.Router(c.config, c.db.Tables())
	if err != nil {
		return []finding.Finding{finding.Failed("routes", err)}
	}
	var found []finding.Finding
	for _, table := range c.db.Tables() {
		name := table.Name.String()
		t := tables[name]
		if t == nil {
			continue
		}
		if err := router.Check(t); err != nil {
			found = append(found, finding.Failed("table "+name, err))
			continue
		}
		found = append(found, finding.Finding{Severity: finding.OK, Subject: "table " + name, Text: "has the columns that records and routes need"})
	}
	return found
}

// recordFindings verifies that all who remove rows can know of this relay's letters.
func (c *check) recordFindings(ctx context.Context) []finding.Finding {
	if err := source.Unrecorded(ctx, c.db); err != nil {
		return []finding.Finding{{Severity: finding.Warn, Subject: "dead letters", Text: err.Error() + ", and the relay stops at an event that is too large for that topic", Fix: cdc.Fix(err)}}
	}
	return nil
}

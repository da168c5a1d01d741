package provision

import (
	"context"
	"slices"
	"sync"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/finding"
	"github.com/cdc-relay/cdc-relay/internal/position"
	"github.com/cdc-relay/cdc-relay/internal/retention"
	"github.com/cdc-relay/cdc-relay/internal/source"
	"github.com/cdc-relay/cdc-relay/internal/stages"
)

// Report is what a check found.
type Report struct {
	// OK is false if any finding is a failure.
	OK       bool              `json:"ok"`
	Findings []finding.Finding `json:"findings"`
}

// Count returns how many findings have a severity.
func (r *Report) Count(s finding.Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// check is one check of a configuration.
type check struct {
	config *config.Config
	db     source.Database
	store  *position.Places
}

// Check verifies that everything that a run needs is there, and changes nothing: configuration, database, Kafka and checkpoint store,
// concurrently. It lists the findings in that order.
func Check(ctx context.Context, c *config.Config) (Report, error) {
	db, err := source.New(c)
	if err != nil {
		return Report{}, err
	}
	store, err := stages.Places(ctx, c)
	if err != nil {
		return Report{Findings: []finding.Finding{finding.Failed("checkpoint", err)}}, nil
	}
	defer func() { _ = store.Close() }()
	check := &check{c, db, store}
	var parts [4][]finding.Finding
	var wg sync.WaitGroup
	for i, part := range []func(context.Context) []finding.Finding{check.checkConfig, check.checkDatabase, check.checkKafka, store.Check} {
		wg.Go(func() { parts[i] = part(ctx) })
	}
	wg.Wait()
	r := Report{Findings: slices.Concat(parts[:]...)}
	r.OK = r.Count(finding.Fail) == 0
	return r, nil
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

// checkRows verifies that old rows can be deleted.
func (c *check) checkRows(ctx context.Context) []finding.Finding {
	if c.config.Retention == nil {
		return nil
	}
	dsn, err := c.db.ConnString("")
	if err != nil {
		return nil // reported
	}
	var report finding.Report
	err = c.db.Rows(dsn, c.store.Load).Each(ctx, func(t retention.Rows) error {
		if err := t.Verify(ctx); err != nil {
			report.Warn("retention", cdc.Fix(err), "%v", err)
		} else {
			report.OK("retention", "old rows of %s can be deleted", t.Name())
		}
		return nil
	})
	if err != nil {
		report.Warn("retention", cdc.Fix(err), "%v", err)
	}
	return report.Findings
}

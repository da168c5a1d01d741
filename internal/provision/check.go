package provision

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/cleanup"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// Report is what a check found.
type Report struct {
	// OK is false if any finding is a failure.
	OK       bool          `json:"ok"`
	Findings []cdc.Finding `json:"findings"`
}

// check is one check of a configuration.
type check struct {
	config *config.Config
	db     app.Database
	store  *checkpoint.Places
}

// Check verifies that everything that a run needs is there, and changes nothing: configuration, database, Kafka and checkpoint store,
// concurrently. It lists the findings in that order.
func Check(ctx context.Context, c *config.Config) (Report, error) {
	db := app.NewDatabase(c)
	store, err := app.Places(ctx, c)
	if err != nil {
		return Report{Findings: []cdc.Finding{cdc.FailedFinding("checkpoint", err)}}, nil
	}
	defer func() { _ = store.Close() }()
	check := &check{c, db, store}
	var parts [4]cdc.Report
	var wg sync.WaitGroup
	for i, part := range []func(context.Context, *cdc.Report){check.checkConfig, check.checkDatabase, check.checkKafka, check.checkStore} {
		wg.Go(func() { part(ctx, &parts[i]) })
	}
	wg.Wait()
	var r Report
	for i := range parts {
		r.Findings = append(r.Findings, parts[i].Findings...)
	}
	r.OK = !slices.ContainsFunc(r.Findings, func(f cdc.Finding) bool { return f.Severity == cdc.SeverityFail })
	return r, nil
}

func (c *check) checkConfig(_ context.Context, r *cdc.Report) {
	for _, w := range c.config.Warnings() {
		r.Warn("configuration", w.Fix, "%s", w.Text)
	}
}

func (c *check) checkStore(ctx context.Context, r *cdc.Report) { r.Findings = c.store.Check(ctx) }

func (c *check) checkDatabase(ctx context.Context, r *cdc.Report) {
	found, tables := c.db.Check(ctx, c.store.Resume)
	r.Findings = found
	if tables != nil {
		c.checkRows(ctx, r)
	}
	c.checkTables(ctx, tables, r)
	noteSharedIDs(c.db.Tables(), tables, r)
}

// checkTables verifies that the tables have the columns that the router needs.
func (c *check) checkTables(ctx context.Context, tables map[string]*cdc.Table, r *cdc.Report) {
	router := app.Router(c.config, c.db.Tables())
	for i, table := range c.db.Tables() {
		name := table.Name.String()
		t := tables[name]
		if t == nil {
			continue
		}
		if err := router.Check(t); err != nil {
			r.Fail("table "+name, err)
			continue
		}
		r.OK("table "+name, "has the columns that records and routes need")
		if table.Foreign() {
			noteColumns(i, &table, t, router.Needs, r)
			c.checkOrder(ctx, &table, r)
		}
	}
}

// orderTimeout is how long it is looked for rows without a place in the order, which may take a read of the table.
const orderTimeout = 5 * time.Second

// checkOrder says what cannot be done with a table's rows by SQL, before the day on which somebody has to.
func (c *check) checkOrder(ctx context.Context, table *app.Table, r *cdc.Report) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	subject := "table " + table.Name.String()
	reader, err := c.db.Reader(ctx, c.config.ConnString, table)
	if err != nil {
		if cdc.ReasonOf(err) == tableread.ReasonNoOrder { // for others, such as rights, the owner's connection string may do
			r.Fail(subject, err)
		}
		return
	}
	defer reader.Close(context.WithoutCancel(ctx))
	if id := table.Layout.Column(outbox.EventID); id != "" && !reader.Unique() { // a consumer takes the second event for a repetition
		r.Warn(subject, "create a unique index on it", "column %s has no unique index: two events may have one ID", id)
	}
	if err := reader.Orderly(ctx, tableread.Filter{}); cdc.Fix(err) != "" {
		r.Warn(subject, cdc.Fix(err), "repair, setup --backfill and a replay of all rows are not possible: %v", err)
	} else if err := reader.Orderly(ctx, tableread.Filter{From: time.Now()}); cdc.Fix(err) != "" {
		r.Info(subject, cdc.Fix(err), "repair --since and replay --since are not possible: %v", err)
	}
}

// checkRows verifies that old rows can be deleted, and published ones marked.
func (c *check) checkRows(ctx context.Context, r *cdc.Report) {
	if c.config.Purges() {
		c.checkActions(ctx, r, "retention", "old rows of %s can be deleted", c.db.Deletes(c.config.Retention.Age()))
	}
	if marks := c.db.Marks(""); len(marks) > 0 {
		c.checkActions(ctx, r, "write-back", "rows of %s can be marked", marks)
	}
}

func (c *check) checkActions(ctx context.Context, r *cdc.Report, subject, ok string, actions []cdc.RowAction) {
	err := c.db.Rows(c.config.ConnString, actions).Each(ctx, c.store.Load, func(t cleanup.Rows) error {
		switch err := t.Verify(ctx); {
		case err == nil:
			r.OK(subject, ok, t.Name())
		case cdc.ReasonOf(err) == cdc.BadWriteBack:
			r.Fail(subject, err)
		default:
			r.Warn(subject, cdc.Fix(err), "%v", err)
		}
		return nil
	})
	if err != nil {
		r.Warn(subject, cdc.Fix(err), "%v", err)
	}
}

package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/retention"
	"github.com/cdc-relay/cdc-relay/internal/source"
	"github.com/cdc-relay/cdc-relay/internal/stubs"
)

func purgeOptions(d config.Delete) retention.PurgeOptions {
	return retention.PurgeOptions{OlderThan: d.Age(), Batch: d.Batch, Pause: d.Pause, Every: d.Every}
}

// purgePatience is how long a command waits for the relay to have published and saved what is to be deleted.
const purgePatience = 15 * time.Second

// purge deletes old rows once, or prints how many there are.
func (r *partitionsRun) purge(ctx context.Context, a *app, c *config.Config, owner string) error {
	o, err := r.purgeOptions(c)
	if err != nil {
		return err
	}
	return withRows(ctx, c, owner, r.others, func(open retention.RowTables, guard retention.Guard) error {
		if r.dry {
			return countRows(ctx, a, open, o.OlderThan)
		}
		log := slog.New(slog.NewTextHandler(a.stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
		return retention.NewPurger(o, open, guard, log, prometheus.NewRegistry()).Purge(ctx)
	})
}

func (r *partitionsRun) purgeOptions(c *config.Config) (retention.PurgeOptions, error) {
	o := purgeOptions(c.Retention.Delete)
	o.Patience = purgePatience
	age, err := r.age("older-than", r.olderThan, o.OlderThan)
	o.OlderThan = age
	return o, err
}

// withRows calls fn with the tables whose old rows are deleted.
func withRows(ctx context.Context, c *config.Config, given string, others []*config.Config, fn func(retention.RowTables, retention.Guard) error) error {
	return withStore(ctx, c, given, func(db source.Database, dsn source.ConnString, load cdc.Loader) error {
		return fn(db.Rows(dsn, load), stubs.Guard(c, db, dsn, others))
	})
}

// maxCounted limits the counting of a dry run.
const maxCounted = 1_000_000

func countRows(ctx context.Context, a *app, open retention.RowTables, age time.Duration) error {
	return open.Each(ctx, func(t retention.Rows) error {
		if err := t.Verify(ctx); err != nil {
			return err
		}
		n, err := t.Count(ctx, age, maxCounted)
		if err != nil {
			return err
		}
		more := ""
		if n == maxCounted {
			more = " or more"
		}
		a.printf("table %s: would delete %s%s older than %s\n", t.Name(), display.Plural(n, "row"), more, age)
		return nil
	})
}

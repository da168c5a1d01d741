package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/backfill"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/relay"
)

// defaultOverlap is longer than the transactions of an application, and clocks differ by less.
const defaultOverlap = 10 * time.Minute

func newRepairCommand(a *cli) *cobra.Command {
	var (
		o     backfill.Options
		owner ownerFlag
	)
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "Publish from the table what a lost slot or purged binlog left out, and continue after it",
		Long: `Publish the events that the WAL or binlog does not have any more, from the outbox table and from what retention has detached from it, and
store the position from which run continues. Use it when run has ended with exit code 5.

Every event of the gap is published once or more, in order of creation; rows that were deleted cannot be published. On PostgreSQL the
checkpoint says where the gap begins. Without that, and on MySQL and MariaDB, it begins at the last published event or at --since, less
--overlap, and is complete if every row was committed within --overlap of its created_at (which may be the time in its version 7 ID).

What retention has detached belongs to the table's owner: set CDC_RELAY_OWNER_DSN to the owner's connection string.

Stop the relay first. Interrupted, run it again: nothing is moved before everything is published.`,
		Example: `  cdc-relay repair
  cdc-relay repair --since 2026-01-02T15:04:05Z --overlap 1h`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := repairOptions(&o); err != nil {
				return err
			}
			_, err := a.repair(cmd.Context(), o, owner)
			return err
		},
	}
	owner.add(cmd)
	cmd.Flags().BoolVar(&o.All, "all", false, "publish every row")
	replaced(cmd.Flags().Lookup("all"), "`cdc-relay backfill`")
	cmd.Flags().TimeVar(&o.Since, "since", time.Time{}, []string{time.RFC3339Nano}, "publish the rows that were created since this `time`, less --overlap")
	cmd.Flags().DurationVar(&o.Overlap, "overlap", defaultOverlap, "how long after its created_at a row may have been committed")
	return cmd
}

func newBackfillCommand(a *cli) *cobra.Command {
	var owner ownerFlag
	cmd := &cobra.Command{
		Use:   "backfill",
		Short: "Publish every row of the tables, also those from before the slot or the first position",
		Long: `Publish every row of the outbox tables and of what retention has detached from them, in order of creation, and store the position
from which run continues. Rows that the relay has published are published again.

Stop the relay first. Interrupted, it can be run again. Where cdc-relay setup has not run yet, setup --backfill does both, and with
--where only for some rows.`,
		Example: "  cdc-relay backfill",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := a.repair(cmd.Context(), backfill.Options{All: true, Overlap: defaultOverlap}, owner)
			return err
		},
	}
	owner.add(cmd)
	return cmd
}

func repairOptions(o *backfill.Options) error {
	switch {
	case o.All && !o.Since.IsZero():
		return cdc.Usage("leave one of them out", "--all and --since cannot be combined")
	case o.Overlap < 0:
		return cdc.Usage("give a duration such as 10m", "--overlap is negative")
	case o.Since.After(time.Now()):
		return cdc.Usage("give a time in the past", "--since %s is in the future", o.Since.Format(time.RFC3339))
	}
	return nil
}

// repair runs a relay whose source is the table. published is false if there was nothing to repair.
func (a *cli) repair(ctx context.Context, o backfill.Options, owner ownerFlag) (published bool, err error) {
	c, err := a.load()
	if err != nil {
		return false, err
	}
	log := a.plainLog()
	checkpoint.LogTo(log)
	tuneGC(a.env, int64(c.InFlight.Bytes))
	db := app.NewDatabase(c)
	if slices.ContainsFunc(db.Tables(), func(t app.Table) bool { return t.Layout.Zone != nil }) {
		o.Overlap += time.Hour // its clock may have been put back
	}
	o.Display, o.Backdated = db.Display, slices.ContainsFunc(db.Tables(), func(t app.Table) bool { return t.Layout.Column(outbox.CreatedAt) == "" })
	reg := newRegistry()
	rows, r, closeStore, err := a.newRepair(ctx, c, db, o, owner, log, reg)
	if err != nil {
		return false, err
	}
	defer closeStore()
	err = r.RunUntil(ctx, rows.Done())
	if cdc.ReasonOf(err) == backfill.Intact {
		a.printf("%s\n", cdc.Explain(err))
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := a.reportRepair(rows, o, reg); err != nil {
		return false, err
	}
	if err := a.passAlteration(ctx, c, db, log); err != nil {
		return false, err
	}
	a.printf("done: position is %s; start `cdc-relay run`\n", app.OrStart(cdc.Position(db.Display(rows.Result().Position))))
	return true, nil
}

// passAlteration publishes what the slot still has, if nothing else holds the position. Every other start stops at the note of an altered
// publication, which is behind the slot's position.
func (a *cli) passAlteration(ctx context.Context, c *config.Config, db app.Database, log *slog.Logger) error {
	slot := db.SlotPosition()
	if slot == nil {
		return nil
	}
	var end cdc.Position
	err := app.WithPositions(ctx, c, db, a.printf, func(p *app.Positions) (err error) {
		end, err = p.Current(ctx)
		return err
	})
	if err != nil {
		return err
	}
	a.printf("publishing what the slot still has, up to %s\n", db.Display(end))
	reg, problems := newRegistry(), cdc.NewProblems(log)
	dropped, _ := newDropped(reg)
	s, _, closeStore, err := wire(ctx, c, db, app.SourceOptions{PassAlteration: true, Problems: problems}, dropped, log, reg)
	if err != nil {
		return err
	}
	defer closeStore()
	s.Maintainer = nil
	o := app.RelayOptions(c, db, dropped)
	o.Park, o.Problems = false, problems
	watching, stop := context.WithCancel(ctx)
	defer stop()
	passed := make(chan struct{})
	go func() {
		for at, err := slot(watching); watching.Err() == nil; at, err = slot(watching) {
			if err == nil && at.Position >= end {
				close(passed)
				return
			}
			if err != nil {
				log.Warn("slot cannot be read, trying again", cdc.Repeats(), slog.Any("error", err))
			}
			_ = cdc.Sleep(watching, slotInterval)
		}
	}()
	return errors.Join(relay.New(o, s, log, reg).RunUntil(ctx, passed), ctx.Err())
}

// slotInterval is how often the slot's position is read.
const slotInterval = time.Second

func (a *cli) reportRepair(rows *backfill.Repair, o backfill.Options, reg prometheus.Gatherer) error {
	done := rows.Result()
	select {
	case <-rows.Done():
	default:
		fix := "run `cdc-relay repair` again: it begins again, and repeats what was published"
		switch {
		case !o.Since.IsZero():
			fix = fmt.Sprintf("run `cdc-relay repair --since %s` again: it begins again, and repeats what was published", o.Since.Format(time.RFC3339))
		case o.Where != "":
			fix = "run the same setup again: it begins again"
		case o.All:
			fix = "run `cdc-relay backfill` again: it begins again, and repeats what was published"
		}
		return cdc.Fixable(fix, "interrupted after %s were read; the position was not moved", display.Plural(int(done.Rows), "row"))
	}
	read, already := display.Plural(int(done.Rows), "row"), "; consumers may have some of them already"
	if o.Where != "" || done.Rows == 0 {
		already = ""
	}
	if dropped, letters := total(reg, "cdc_relay_events_dropped_total"), total(reg, "cdc_relay_dead_letters"); dropped+letters > 0 { // of aborted attempts, too
		a.printf("read %s; published all but what errors.* dropped (%d) and dead letters (%d, older ones included: `cdc-relay dlq list`)%s\n", read, dropped, letters, already)
	} else {
		a.printf("published %s%s\n", read, already)
	}
	if done.LeftOut > 0 {
		a.printf("left out %s, as tables[].only says of what they hold now\n", display.Plural(int(done.LeftOut), "row"))
	}
	if done.Gone > 0 {
		a.printf("did not find %s: deleted, or given another ID or created_at, before they were read\n", display.Plural(int(done.Gone), "row"))
	}
	return nil
}

func (a *cli) newRepair(ctx context.Context, c *config.Config, db app.Database, o backfill.Options, owner ownerFlag, log *slog.Logger, reg *prometheus.Registry) (*backfill.Repair, *relay.Relay, func(), error) {
	problems := cdc.NewProblems(log)
	dropped, _ := newDropped(reg)
	router := app.RelayRouter(c, db.Tables())
	read, err := owner.dsn(ctx, a, c)
	if err != nil {
		return nil, nil, nil, err
	}
	rows := backfill.NewRepair(db.NewRepair(router.Check, read, o.Where, log), o, log)
	passed := func(at cdc.Progress, place string) bool { return !cdc.OfTable(place) && db.Passed(at, place) } // rows of the table come again
	s, store, err := wireSink(ctx, c, db, passed, problems, dropped, o.Where != "", log, reg)
	if err != nil {
		return nil, nil, nil, err
	}
	s.Source, s.Router = rows, router
	options := app.RelayOptions(c, db, dropped)
	options.Park, options.LeftOut, options.Problems = false, rows.LeftOut, problems
	return rows, relay.New(options, s, log, reg), func() { _ = store.Close() }, nil
}

// total is the sum of a metric over its labels.
func total(reg prometheus.Gatherer, metric string) (n int) {
	list, _ := reg.Gather() // metrics of a failing collector are missing
	for _, f := range list {
		for _, m := range f.GetMetric() {
			if f.GetName() == metric {
				n += int(m.GetCounter().GetValue() + m.GetGauge().GetValue())
			}
		}
	}
	return n
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/admin"
	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/cleanup"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/inspect"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/relay"
)

func newRunCommand(a *cli) *cobra.Command {
	var dry, profile bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Publish committed outbox events until stopped",
		Long: `Read the database's WAL or binlog and publish every committed outbox event to Kafka, in commit order per key.

The first SIGTERM or SIGINT waits until the records in flight are acknowledged, saves the position and confirms it to
the database; a second one stops at once. No event is lost either way: events that were not confirmed are published
again. At SIGHUP it reads the configuration file again and applies log.level; other changes need a restart.

On MySQL and MariaDB only the checkpoint holds the position. Without a checkpoint run refuses to start (exit 5);
cdc-relay setup stores the first one.`,
		Example: "  cdc-relay run --config orders.yaml\n  cdc-relay run --dry-run",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			hangups, stop := hangups() // first: unhandled, SIGHUP ends the process
			defer stop()
			c, err := a.load()
			if err != nil {
				return err
			}
			log := newLogs(a.stderr, c.Log)
			defer log.limiter.flush()
			go a.reloadAt(cmd.Context(), hangups, c, log)
			checkpoint.LogTo(log.Logger)
			for _, w := range c.Warnings() {
				log.Warn("check the configuration", "warning", w.Text, "fix", w.Fix)
			}
			if dry {
				return dryRun(cmd.Context(), c, a.stdout, log.Logger)
			}
			tuneGC(a.env, int64(c.InFlight.Bytes))
			defer tuneLoad(cmd.Context(), a.env)()
			return run(cmd.Context(), c, log.Logger, profile)
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the records of events committed from now on; publish nothing and save no position")
	cmd.Flags().BoolVar(&profile, "pprof", false, "serve Go's profiler under /debug/pprof on http.listen")
	_ = cmd.Flags().MarkHidden("pprof") // there is such a flag
	return cmd
}

// run connects the stages and runs the relay until ctx ends or an error stops it. The endpoint listens first, so that a
// port in use is found before anything starts.
func run(ctx context.Context, c *config.Config, log *slog.Logger, profile bool) error {
	db := app.NewDatabase(c)
	reg := newRegistry()
	dropped, left := newDropped(reg)
	problems := cdc.NewProblems(log)
	s, src, closeStore, err := wire(ctx, c, db, app.SourceOptions{Problems: problems}, dropped, log, reg)
	if err != nil {
		return err
	}
	defer closeStore()
	reg.MustRegister(newInfo(c, src))
	o := app.RelayOptions(c, db, dropped)
	o.Problems, o.LeftOut = problems, left
	listen := newTail(s.Sink)
	s.Sink = listen
	r := relay.New(o, s, log, reg)
	if c.HTTP.Listen == "" {
		return r.Run(ctx)
	}
	letters, _ := s.Letters.(*deadletter.Resolver)
	server, err := admin.New(ctx, endpoint(c, db, r, src, letters, listen, reg, profile), log)
	if err != nil {
		return err
	}
	reg.MustRegister(server.TimeToLoss())
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- server.Run(serving) }()
	err = r.Run(ctx) // the endpoint serves longer: a parked relay still answers
	stopServing()
	return errors.Join(err, <-served)
}

func newRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	v := buildVersion()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "cdc_relay", Name: "build_info", Help: "1, with the build's version and revision.",
		ConstLabels: prometheus.Labels{"version": v.Version, "revision": v.Revision},
	})
	info.Set(1)
	reg.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// newInfo returns the metric that tells by the database, the slot and source.mysql.id which relays belong together. Its labels are no constant ones of every metric: a
// scrape target has one database.
func newInfo(c *config.Config, s app.Source) prometheus.Collector {
	desc := prometheus.NewDesc("cdc_relay_info", "1, with the names of the database and the slot, source.mysql.id, the database's flavor once it was reached, and the version.",
		[]string{"database", "flavor", "slot", "source_id", "version"}, nil)
	slot, id := "", ""
	if p := c.Source.Postgres; p != nil {
		slot = p.Slot
	}
	if m := c.Source.MySQL; m != nil {
		id = m.ID
	}
	return prometheus.CollectorFunc(func(ch chan<- prometheus.Metric) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, 1, c.Database(), s.Status().Flavor, slot, id, buildVersion().Version)
	})
}

// wire returns the stages of a relay, and their source, whose state is shown.
func wire(ctx context.Context, c *config.Config, db app.Database, o app.SourceOptions, dropped func(reason string), log *slog.Logger, reg prometheus.Registerer) (relay.Stages, app.Source, func(), error) {
	router := app.RelayRouter(c, db.Tables())
	o.Verify = router.Check
	src := db.NewSource(o, log, reg)
	s, store, err := wireSink(ctx, c, db, db.Passed, o.Problems, dropped, false, log, reg)
	if err != nil {
		return relay.Stages{}, nil, nil, err
	}
	letters, _ := s.Letters.(*deadletter.Resolver)
	s.Maintainer = newMaintainer(c, db, checkpoint.NewPlaces(store, app.PositionOptions(c)).Load, letters, o.Problems, log, reg)
	s.Source, s.Router = src, router
	return s, src, func() { _ = store.Close() }, nil
}

// wireSink returns the stages behind the router, and the store, which the caller closes. passed is [deadletter.ResolverOptions.Passed], and
// whole [publisher.Options.Whole].
func wireSink(ctx context.Context, c *config.Config, db app.Database, passed func(at cdc.Progress, place string) bool, problems *cdc.Problems, dropped func(reason string), whole bool, log *slog.Logger, reg prometheus.Registerer) (relay.Stages, checkpoint.Store, error) {
	letters := letterOptions(c, db.Tables())
	sink := app.Publisher(c, problems, dropped, letters, whole, log, reg)
	store, err := app.Store(ctx, c)
	if err != nil {
		return relay.Stages{}, nil, err
	}
	s := relay.Stages{Sink: sink, Checkpointer: store}
	if o := app.PositionOptions(c); o.ExactlyOnce {
		s.Committer = checkpoint.NewTopic(sink)
	} else {
		s.Checkpointer = checkpoint.NewHandover(store, o)
	}
	if letters != nil {
		s.Letters = newResolver(c, db, passed, letters, sink, log, reg)
	}
	return s, store, nil
}

// leftOut is the reason of rows that tables[].only leaves out.
const leftOut = "only"

// newDropped registers the counter of events that the router or the publisher drops.
func newDropped(reg prometheus.Registerer) (dropped func(reason string), left func(table string, rows int)) {
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cdc_relay_events_dropped_total",
		Help: "Events not published because the configuration says so: tables[].only, errors.*: drop, errors.skip.",
	}, []string{"reason"})
	reg.MustRegister(counter)
	for _, reason := range []string{"unroutable", "malformed", "unknown_topic", "too_large", "rejected", leftOut} { // a rate needs the 0 before the first
		counter.WithLabelValues(reason)
	}
	return func(reason string) { counter.WithLabelValues(reason).Inc() },
		func(_ string, rows int) { counter.WithLabelValues(leftOut).Add(float64(rows)) }
}

// maintainers run side by side.
type maintainers []func(ctx context.Context, kept cdc.Kept)

// Run ends when all have ended.
func (m maintainers) Run(ctx context.Context, kept cdc.Kept) {
	var running sync.WaitGroup
	for _, run := range m {
		running.Go(func() { run(ctx, kept) })
	}
	running.Wait()
}

// newMaintainer returns what looks after the tables; nothing where the configuration leaves them alone. letters may be nil.
func newMaintainer(c *config.Config, db app.Database, load cdc.Loader, letters *deadletter.Resolver, problems *cdc.Problems, log *slog.Logger, reg prometheus.Registerer) (all maintainers) {
	if c.Partitioned() {
		all = append(all, cleanup.NewPartitioner(partitionOptions(c.Retention), db.Partitions(c.ConnString, false, load), log, reg).Run)
	}
	if c.Purges() {
		all = append(all, cleanup.NewDeletes(cleanup.DeleteOptions{Batch: c.Retention.Batch, Every: c.Retention.Every, Load: load}, db.Rows(c.ConnString, db.Deletes(c.Retention.Age())), log, reg).Run)
	}
	if marks := db.Marks(""); len(marks) > 0 {
		o := cleanup.MarkOptions{Tables: marks, Problems: problems, Letters: func(string) deadletter.Events { return nil }}
		if letters != nil {
			o.Letters = letters.Events
		}
		all = append(all, cleanup.NewMarks(o, db.Rows(c.ConnString, marks), log, reg).Run)
	}
	return all
}

func partitionOptions(r *config.Retention) cleanup.PartitionOptions {
	return cleanup.PartitionOptions{Ahead: r.Ahead, TTL: r.Age(), Every: r.Every, Drop: r.Drop}
}

// letterOptions is nil without dead letters.
func letterOptions(c *config.Config, tables []app.Table) *publisher.LetterOptions {
	l := &c.DeadLetter
	if !l.On() {
		return nil
	}
	o := &publisher.LetterOptions{
		Topic: l.Topic, Index: l.Index(), Partitions: l.Partitions, Due: deadletter.NewDue(),
		Options: deadletter.Options{HoldKey: l.HoldKey, MaxLetters: l.MaxHeldEvents},
	}
	for _, t := range tables {
		o.Tables = append(o.Tables, t.Name.String())
	}
	return o
}

// newResolver makes what resolves letters while the relay leads.
func newResolver(c *config.Config, db app.Database, passed func(at cdc.Progress, place string) bool, letters *publisher.LetterOptions, sink *publisher.Publisher, log *slog.Logger, reg prometheus.Registerer) *deadletter.Resolver {
	router := app.LetterRouter(c, db.Tables())
	r := deadletter.NewResolver(deadletter.ResolverOptions{
		Kafka: app.KafkaOptions(c), Topic: letters.Topic, Index: letters.Index, Due: letters.Due,
		RetryAfter: c.DeadLetter.AutoRetry.After, MaxAttempts: c.DeadLetter.AutoRetry.Attempts, Passed: passed, Stored: db.SlotPosition(),
	}, sink, router, log)
	r.Register(reg)
	return r
}

// dryRun prints what run would publish from now on.
func dryRun(ctx context.Context, c *config.Config, out io.Writer, log *slog.Logger) error {
	log.Info("dry run: printing records of new commits, publishing nothing")
	lines := json.NewEncoder(out)
	return inspect.FromSource(ctx, c, log, func(r *inspect.Record) error {
		if err := lines.Encode(r); err != nil {
			return fmt.Errorf("print record: %w", err)
		}
		return nil
	})
}

package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cleanup"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

func newRetentionCommand(a *cli) *cobra.Command {
	cmd := group("retention", "Make the partitions ahead, and remove old partitions and rows",
		newRetentionListCommand(a), newRetentionRunCommand(a))
	cmd.Long = cmd.Short + `.

With a section retention in the configuration the leading relay does what cdc-relay retention run does. A day that is past
the TTL is detached from the table, and dropped once the relay has published every event in it and saved its position.`
	return cmd
}

func newRetentionListCommand(a *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the partitions, also detached ones",
		Example: "  cdc-relay retention list",
		Args:    noArgs,
		RunE: a.withConfig(func(ctx context.Context, c *config.Config, _ []string) error {
			return withTables(ctx, c, "", func(db passTables) error {
				return eachTable(ctx, db.Partitions(db.dsn, false, db.load), func(t cleanup.Partitions, parts []cdc.Partition, now time.Time) {
					a.printf("table %s: partitions for %d days ahead\n", t.Name(), cleanup.Ahead(parts, now))
					for _, p := range parts {
						a.printf("  %s  %s\n", p.Name, describePartition(p))
					}
				})
			})
		}),
	}
}

func describePartition(p cdc.Partition) string {
	switch {
	case p.Out && p.Relayed:
		return "detached, relayed"
	case p.Kept != nil:
		return "detached, kept: " + cdc.Explain(p.Kept)
	case p.Out:
		return "detached, not relayed yet"
	case p.Default:
		return "default"
	case p.Foreign:
		return "left alone: cdc-relay did not make it"
	default:
		return "until " + p.Until.UTC().Format(time.DateTime)
	}
}

// passTables is what a pass over the tables is made with.
type passTables struct {
	app.Database

	dsn  app.ConnString // that was given, or the relay's
	load cdc.Loader     // of the position that decides what is relayed
}

// withTables calls fn with the database.
func withTables(ctx context.Context, c *config.Config, owner string, fn func(passTables) error) error {
	dsn, err := app.OwnerConnString(ctx, c, owner)
	if err != nil {
		return err
	}
	store, err := app.Places(ctx, c)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	return fn(passTables{app.NewDatabase(c), dsn, store.Load})
}

// eachTable connects and lists the partitions of each table.
func eachTable(ctx context.Context, open cleanup.PartitionTables, see func(cleanup.Partitions, []cdc.Partition, time.Time)) error {
	tables, closeAll, err := open(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	for _, t := range tables {
		parts, now, err := t.List(ctx)
		if err != nil {
			return err
		}
		see(t, parts, now)
	}
	return nil
}

func newRetentionRunCommand(a *cli) *cobra.Command {
	var (
		r     retentionRun
		owner ownerFlag
	)
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Make the partitions ahead, and remove old partitions and rows, once",
		Long: `Do once what the leading relay does at intervals: make the partitions ahead, detach those past retention.keep, drop what was detached
and is relayed, and delete old rows of tables without partitions, once they are relayed. A lock that is not free within 20 ms is tried again.

The relay's role calls the routine that cdc-relay setup makes. With --owner-dsn (also ` + app.EnvOwner + `) no routine is needed.`,
		Example: "  cdc-relay retention run --dry-run\n  cdc-relay retention run --ttl 90d",
		Args:    noArgs,
		RunE: a.withConfig(func(ctx context.Context, c *config.Config, _ []string) error {
			return r.run(ctx, a, c, owner.given(a))
		}),
	}
	owner.add(cmd)
	cmd.Flags().BoolVar(&r.dry, "dry-run", false, "print what would be done; change nothing")
	cmd.Flags().BoolVar(&r.force, "force", false, "accept a --ttl or --older-than below a day")
	renamed(cmd, "yes", "force")
	cmd.Flags().IntVar(&r.ahead, "ahead", 0, "create partitions for this many `days` in advance, also without a section retention")
	cmd.Flags().StringVar(&r.ttl, "ttl", "", "`age` to use in place of retention.keep, for partitions")
	cmd.Flags().StringVar(&r.olderThan, "older-than", "", "`age` to use in place of retention.keep, for rows")
	return cmd
}

// retentionRun is one run of the command.
type retentionRun struct {
	dry, force     bool
	ahead          int
	ttl, olderThan string
	unknown        error // why it is not known whether letters need rows: nothing that they may need is removed
}

func (r *retentionRun) run(ctx context.Context, a *cli, c *config.Config, owner string) error {
	if r.unknown = lettersWhole(ctx, c); cdc.ReasonOf(r.unknown) == deadletter.WithoutPayload {
		return r.unknown
	}
	if c.Retention == nil || c.Retention.Partitions || r.ahead > 0 {
		if err := r.maintain(ctx, a, c, owner); err != nil {
			return err
		}
	}
	if c.Purges() {
		if err := r.purge(ctx, a, c, owner); err != nil {
			return err
		}
	}
	if (c.Partitioned() || r.ttl != "") && r.unknown != nil { // nothing was dropped; rows that are kept have said so
		return r.unknown
	}
	if !r.dry {
		a.printf("done: nothing is left to do\n")
	}
	return nil
}

// lettersWhole returns an error if letters that an earlier version wrote need rows of the tables. A timer's configuration may not have them.
func lettersWhole(ctx context.Context, c *config.Config) error {
	if !c.DeadLetter.On() {
		of := *c
		of.DeadLetter.Topic = config.DefaultLetterTopic(c.Database())
		c = &of
	}
	if err := app.LetterDesk(c).Whole(ctx); !errors.Is(err, kafka.ErrTopicMissing) {
		return err
	}
	return nil
}

// maintain makes the partitions ahead and removes those past the TTL.
func (r *retentionRun) maintain(ctx context.Context, a *cli, c *config.Config, owner string) error {
	return withTables(ctx, c, owner, func(db passTables) error {
		open := db.Partitions(db.dsn, owner != "" && !r.dry, db.load)
		o, err := r.options(c)
		if err != nil {
			return err
		}
		if r.dry {
			return eachTable(ctx, open, func(t cleanup.Partitions, parts []cdc.Partition, now time.Time) { a.printPlan(t, o.Plan(parts, now)) })
		}
		return cleanup.NewPartitioner(o, open, a.plainLog(), prometheus.NewRegistry()).Maintain(ctx)
	})
}

func (r *retentionRun) options(c *config.Config) (cleanup.PartitionOptions, error) {
	o := cleanup.PartitionOptions{Drop: true} // the setting's default
	switch {
	case c.Retention != nil:
		o = partitionOptions(c.Retention)
	case r.ahead == 0:
		return o, cdc.Usage("add one, or give --ahead", "the configuration has no section retention")
	}
	if c.Retention != nil && !c.Retention.Partitions {
		o.TTL = 0 // keep is for rows
	}
	o.Ahead = cmp.Or(r.ahead, o.Ahead)
	age, err := r.age("ttl", r.ttl, o.TTL)
	o.TTL, o.Drop = age, o.Drop && r.unknown == nil
	return o, err
}

// age returns the age that a flag gives, or that of the configuration.
func (r *retentionRun) age(flag, given string, configured time.Duration) (time.Duration, error) {
	if given == "" {
		return configured, nil
	}
	age, err := config.ParseAge(given)
	if err != nil {
		return 0, cdc.Usage("write it like 30d or 36h", "--%s: %w", flag, err)
	}
	if age < 24*time.Hour && !r.force {
		return 0, cdc.Usage("give --force if that is meant", "--%s %s is shorter than a day", flag, given)
	}
	return age, nil
}

func (a *cli) printPlan(t cleanup.Partitions, p cleanup.Plan) {
	for _, day := range p.Make {
		a.printf("table %s: would make %s\n", t.Name(), day.Format(time.DateOnly))
	}
	for _, part := range p.TakeOut {
		a.printf("table %s: would detach %s\n", t.Name(), part.Name)
	}
	for _, part := range p.Drop {
		a.printf("table %s: would drop %s\n", t.Name(), part.Name)
	}
	for _, part := range p.Unrelayed {
		why := "until its events are published and their position is saved"
		if part.Kept != nil {
			why = "because " + cdc.Explain(part.Kept)
		}
		a.printf("table %s: keeps %s %s\n", t.Name(), part.Name, why)
	}
}

// plainLog writes to standard output, without time and level.
func (a *cli) plainLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// purgePatience is how long a command waits for the relay to have published and saved what is to be deleted.
const purgePatience = 15 * time.Second

// purge deletes old rows once, or prints how many there are.
func (r *retentionRun) purge(ctx context.Context, a *cli, c *config.Config, owner string) error {
	age, err := r.age("older-than", r.olderThan, c.Retention.Age())
	if err != nil {
		return err
	}
	return withTables(ctx, c, owner, func(db passTables) error {
		open := db.Rows(db.dsn, db.Deletes(age))
		if r.dry {
			return open.Each(ctx, db.load, func(t cleanup.Rows) error { return a.printDue(ctx, t, age) })
		}
		o := cleanup.DeleteOptions{Batch: c.Retention.Batch, Patience: purgePatience, Kept: r.unknown, Load: db.load}
		return cleanup.NewDeletes(o, open, a.plainLog(), prometheus.NewRegistry()).Once(ctx)
	})
}

// maxCounted limits the counting of a dry run.
const maxCounted = 100_000

func (a *cli) printDue(ctx context.Context, t cleanup.Rows, age time.Duration) error {
	if err := t.Verify(ctx); err != nil {
		return err
	}
	keys, _, err := t.Due(ctx, maxCounted)
	if err != nil {
		return err
	}
	a.printf("table %s: would delete %s%s older than %s\n", t.Name(), display.Plural(len(keys), "row"), when(len(keys) == maxCounted, " or more"), age)
	return nil
}

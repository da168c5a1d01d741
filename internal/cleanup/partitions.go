package cleanup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Partitions is an outbox table with its partitions. Each change is one transaction, and an error that wraps [cdc.ErrBusy] says
// that it gave up so as not to hold writers up.
type Partitions interface {
	Name() string
	// List also returns the time by the database's clock, by which created_at is set.
	List(ctx context.Context) (parts []cdc.Partition, now time.Time, err error)
	// DefaultRows counts the rows of the default partition, up to a limit.
	DefaultRows(ctx context.Context) (int64, error)
	// Make makes a day's partition. With swap the default partition has rows: it is taken out, and replaced by an empty one.
	Make(ctx context.Context, day time.Time, swap bool) error
	TakeOut(ctx context.Context, p cdc.Partition) error
	Drop(ctx context.Context, p cdc.Partition) error
}

// PartitionTables connects to the database and returns its tables. The caller closes the connection.
type PartitionTables func(ctx context.Context) (tables []Partitions, closeAll func(), err error)

// Partitioner keeps the partitions of the tables as the options say.
type Partitioner struct {
	opts    PartitionOptions
	open    PartitionTables
	log     *slog.Logger
	metrics *partitionMetrics
}

// NewPartitioner returns a Partitioner and registers its metrics.
func NewPartitioner(opts PartitionOptions, open PartitionTables, log *slog.Logger, reg prometheus.Registerer) *Partitioner {
	return &Partitioner{opts, open, log, newPartitionMetrics(reg)}
}

const (
	// attempts is how often a pass is tried while something is left: a lock is not free, or what was taken out is not
	// relayed yet. The pauses double.
	attempts   = 5
	firstPause = time.Second
	// step is the pause between two changes, in which writers that waited go on.
	step = 100 * time.Millisecond
)

// Run maintains the partitions at once and then at every interval, until ctx ends. What cannot be done is logged, and done
// later: it never ends the relay.
func (m *Partitioner) Run(ctx context.Context, _ cdc.Kept) {
	for {
		if err := m.Maintain(ctx); err != nil && ctx.Err() == nil {
			m.log.Warn("partitions not maintained, trying again later", "error", err, "pause", m.opts.Every.String())
			m.metrics.errors.Inc()
		}
		if cdc.Sleep(ctx, m.opts.Every) != nil {
			return
		}
	}
}

// Maintain makes passes until nothing is left to do, a few times at most. It returns what is left as an error.
func (m *Partitioner) Maintain(ctx context.Context) error {
	for i := 0; ; i++ {
		err := m.pass(ctx)
		if err == nil || i+1 == attempts || !later(err) {
			return err
		}
		if cdc.Sleep(ctx, firstPause<<i) != nil {
			return err
		}
	}
}

// errUnrelayed says that what was taken out holds events that the relay has not published, or not saved.
var errUnrelayed = errors.New("not dropped")

func later(err error) bool { return errors.Is(err, cdc.ErrBusy) || errors.Is(err, errUnrelayed) }

func (m *Partitioner) pass(ctx context.Context) error {
	tables, closeAll, err := m.open(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	var errs []error
	for _, t := range tables {
		errs = append(errs, m.table(ctx, t))
	}
	return errors.Join(errs...)
}

// table does what is due for one table, and sets its metrics also if a change fails.
func (m *Partitioner) table(ctx context.Context, t Partitions) error {
	parts, now, err := t.List(ctx)
	if err != nil {
		return err
	}
	rows, err := t.DefaultRows(ctx)
	if err != nil {
		return err
	}
	failed := m.apply(ctx, t, m.opts.Plan(parts, now), rows > 0)
	if parts, now, err = t.List(ctx); err != nil {
		return errors.Join(failed, err)
	}
	m.metrics.set(t.Name(), parts, rows, now)
	after := m.opts.Plan(parts, now)
	m.metrics.waiting.WithLabelValues(t.Name()).Set(float64(len(after.Unrelayed)))
	if failed == nil && len(after.Drop) > 0 {
		return fmt.Errorf("%w: %s was detached just now", errUnrelayed, after.Drop[0].Name)
	}
	return errors.Join(failed, keptError(after.Unrelayed))
}

// keptError says that partitions past the TTL are kept until the next pass.
func keptError(parts []cdc.Partition) error {
	if len(parts) == 0 {
		return nil
	}
	if i := slices.IndexFunc(parts, func(p cdc.Partition) bool { return p.Kept != nil }); i >= 0 {
		return fmt.Errorf("%w: %s: %w", errUnrelayed, parts[i].Name, parts[i].Kept)
	}
	return cdc.Fixable("start the relay, or find out why it lags; if it always lags that much, make retention.keep longer",
		"%w: %s, and %d more, hold events whose position is not saved yet", errUnrelayed, parts[0].Name, len(parts)-1)
}

// apply changes the table. To drop takes no lock on the table, so one failure does not stop the others: a reader may hold what
// was taken out. Making and taking out end at the first failure, since a writer waits for us once, unless the rows of a day are kept.
func (m *Partitioner) apply(ctx context.Context, t Partitions, plan Plan, swap bool) error {
	var errs []error
	for _, p := range plan.Drop {
		errs = append(errs, m.do(ctx, "dropped", p.Name, t.Drop(ctx, p)))
	}
	return errors.Join(append(errs, m.makeDays(ctx, t, plan.Make, swap), m.takeOut(ctx, t, plan.TakeOut))...)
}

func (m *Partitioner) makeDays(ctx context.Context, t Partitions, days []time.Time, swap bool) error {
	for _, since := range days {
		if err := m.do(ctx, "made", t.Name()+" "+since.Format(time.DateOnly), t.Make(ctx, since, swap)); err != nil {
			return err
		}
		swap = false
	}
	return nil
}

func (m *Partitioner) takeOut(ctx context.Context, t Partitions, parts []cdc.Partition) error {
	var errs []error
	for _, p := range parts {
		err := m.do(ctx, "detached", p.Name, t.TakeOut(ctx, p))
		errs = append(errs, err)
		if err != nil && !errors.Is(err, cdc.ErrHeld) {
			break
		}
	}
	return errors.Join(errs...)
}

func (m *Partitioner) do(ctx context.Context, change, name string, err error) error {
	if err != nil {
		return err
	}
	m.log.Info("partitions", "change", change, "partition", name)
	return cdc.Sleep(ctx, step)
}

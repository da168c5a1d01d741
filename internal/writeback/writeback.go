package writeback

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
)

// Table is a table whose rows are marked.
type Table interface {
	Name() string
	// Verify returns an error if rows cannot be marked by their key, or by this role. It precedes the others.
	Verify(ctx context.Context) error
	// Pending returns the keys of committed rows that are pending, at most limit and in any order, and a position of the WAL or binlog
	// behind the transactions that wrote them.
	Pending(ctx context.Context, limit int) (keys []cdc.RowKey, behind cdc.Position, err error)
	// Passed reports whether the relay has saved a position that is behind a position or equal to it.
	Passed(ctx context.Context, behind cdc.Position) (bool, error)
	// Mark marks the rows of these keys that are pending and not locked, in one transaction, and returns how many. dead marks them as
	// dead letters.
	Mark(ctx context.Context, keys []cdc.RowKey, dead bool) (int, error)
}

// Tables connects to the database and returns its tables. load returns the position that the relay has saved. The caller closes the
// connection.
type Tables func(ctx context.Context, load cdc.Loader) (tables []Table, closeAll func(), err error)

// Condition names a table's condition in a checkpoint.
func Condition(table, pending string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(table + "\x00" + pending))
	return fmt.Sprintf("%016x", h.Sum64())
}

// Kept is what the leading relay keeps.
type Kept interface {
	// Saved returns the last checkpoint that was claimed or saved.
	Saved() cdc.Checkpoint
	// Settle has the next one say that a condition is settled.
	Settle(condition string)
}

// Options are those of a [Marker].
type Options struct {
	// Conditions are those of the tables, by name; see [Condition].
	Conditions map[string]string
	// OnDeadLetter are the tables that mark rows of dead letters, too.
	OnDeadLetter map[string]bool
	// Letters returns the events of a table that are dead letters at present.
	Letters  func(table string) deadletter.Events
	Problems *cdc.Problems
}

// Marker marks rows while the relay leads.
type Marker struct {
	opts    Options
	open    Tables
	log     *slog.Logger
	metrics metrics
}

type metrics struct {
	marked             *prometheus.CounterVec
	unproven, duration *prometheus.GaugeVec
	errors             prometheus.Counter
}

// New returns a Marker and registers its metrics.
func New(opts Options, open Tables, log *slog.Logger, reg prometheus.Registerer) *Marker {
	m := &Marker{opts: opts, open: open, log: log, metrics: metrics{
		marked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "cdc_relay", Name: "rows_marked_total", Help: "Rows marked in outbox tables because of write_back.",
		}, []string{"table"}),
		unproven: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "cdc_relay", Name: "rows_unproven", Help: "Pending rows that write_back leaves alone, because nothing tells whether they were published before the first position.",
		}, []string{"table"}),
		duration: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "cdc_relay", Name: "write_back_seconds", Help: "How long the rows that write_back marked last had waited since they were read.",
		}, []string{"table"}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "cdc_relay", Name: "write_back_errors_total", Help: "Errors of write_back: of a connection, a table, or a transaction that was to mark rows.",
		}),
	}}
	reg.MustRegister(m.metrics.marked, m.metrics.unproven, m.metrics.duration, m.metrics.errors)
	for table := range opts.Conditions { // a rate needs the 0 before the first
		m.metrics.marked.WithLabelValues(table)
	}
	return m
}

const (
	// errorPause follows an error of the connection, and longestPause is the longest after several. Tables and rows that cannot be marked are
	// tried again after longestPause.
	errorPause   = 5 * time.Second
	longestPause = time.Minute
	reporter     = "write-back"
)

// Run marks rows until ctx ends. What cannot be done is logged, and done later: it never ends the relay.
func (m *Marker) Run(ctx context.Context, kept Kept) {
	known := map[string]*proof{}
	for wait := errorPause; ; wait = min(2*wait, longestPause) {
		began := time.Now()
		err := m.connected(ctx, kept, known)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > longestPause {
			wait = errorPause
		}
		if err != nil {
			m.report([]error{fmt.Errorf("published rows not marked: %w", err)})
			m.metrics.errors.Inc()
		}
		if sleep(ctx, wait) != nil {
			return
		}
	}
}

// connected sweeps until an error of the connection, or until it is time to look again at tables that cannot be marked.
func (m *Marker) connected(ctx context.Context, kept Kept, known map[string]*proof) error {
	load := func(context.Context) (cdc.Checkpoint, bool, error) { return kept.Saved(), true, nil }
	tables, closeAll, err := m.open(ctx, load)
	if err != nil {
		return err
	}
	defer closeAll()
	var unfit []error
	var sweeps []*sweep
	for _, t := range tables {
		if err := t.Verify(ctx); err != nil {
			m.metrics.errors.Inc()
			unfit = append(unfit, fmt.Errorf("published rows not marked: %w", err))
			continue
		}
		if known[t.Name()] == nil {
			known[t.Name()] = &proof{condition: m.opts.Conditions[t.Name()]}
		}
		sweeps = append(sweeps, m.newSweep(t, known[t.Name()], kept))
	}
	for began := time.Now(); len(unfit) == 0 || time.Since(began) < longestPause; {
		looked := len(sweeps) == 0
		for _, s := range sweeps {
			some, err := s.step(ctx)
			if err != nil {
				return err
			}
			looked = looked || some
		}
		if looked {
			problems := slices.Clone(unfit)
			for _, s := range sweeps {
				problems = append(problems, s.problems()...)
			}
			m.report(problems)
		}
		if err := sleep(ctx, tick); err != nil {
			return err
		}
	}
	return nil
}

// report says what is not marked, until the next report.
func (m *Marker) report(found []error) {
	var problems []cdc.Problem
	for _, err := range found {
		problems = append(problems, cdc.Problem{With: cdc.OnRows, Err: err})
		m.log.Warn("rows are not marked", cdc.Repeats(), slog.Any("error", err))
	}
	m.opts.Problems.Report(reporter, problems...)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

package cleanup

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
)

// Marks is a table whose rows are marked.
type Marks interface {
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

// MarkTables connects to the database and returns its tables. load returns the position that the relay has saved. The caller closes the
// connection.
type MarkTables func(ctx context.Context, load cdc.Loader) (tables []Marks, closeAll func(), err error)

// Condition names a table's condition in a checkpoint. letters is the topic of dead letters, "" for none: without it nothing tells which rows
// have one.
func Condition(table, pending, letters string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(table + "\x00" + pending + "\x00" + letters))
	return fmt.Sprintf("%016x", h.Sum64())
}

// MarkOptions are those of a [Marker].
type MarkOptions struct {
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
	opts    MarkOptions
	open    MarkTables
	log     *slog.Logger
	metrics markMetrics
}

type markMetrics struct {
	marked             *prometheus.CounterVec
	unproven, duration *prometheus.GaugeVec
	errors             prometheus.Counter
}

// NewMarker returns a Marker and registers its metrics.
func NewMarker(opts MarkOptions, open MarkTables, log *slog.Logger, reg prometheus.Registerer) *Marker {
	m := &Marker{opts: opts, open: open, log: log, metrics: markMetrics{
		marked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "cdc_relay", Name: "rows_marked_total", Help: "Rows marked in outbox tables because of write_back.",
		}, []string{"table"}),
		unproven: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "cdc_relay", Name: "rows_unproven", Help: "Pending rows that write_back does not mark, because they may be older than the first position; 100001: too many to tell apart, no row of the table is marked.",
		}, []string{"table"}),
		duration: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "cdc_relay", Name: "write_back_seconds", Help: "Seconds from reading pending rows until they were marked, of the last ones.",
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
	// errorPause follows an error of the connection, and longestPause is the longest after several. A table or a row that cannot be marked is
	// tried again after longestPause.
	errorPause   = 5 * time.Second
	longestPause = time.Minute
	reporter     = "write-back"
)

// Run marks rows until ctx ends. What cannot be done is logged, and done later: it never ends the relay.
func (m *Marker) Run(ctx context.Context, kept cdc.Kept) {
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

// member is a table while a connection lasts.
type member struct {
	table Marks
	sweep *sweep    // nil: it cannot be marked
	why   error     // it cannot
	next  time.Time // when that is looked at again
}

// connected sweeps until no table can be marked, as after an error of the connection.
func (m *Marker) connected(ctx context.Context, kept cdc.Kept, known map[string]*proof) error {
	load := func(context.Context) (cdc.Checkpoint, bool, error) { return kept.Saved(), true, nil }
	tables, closeAll, err := m.open(ctx, load)
	if err != nil {
		return err
	}
	defer closeAll()
	all := make([]*member, len(tables))
	for i, t := range tables {
		if known[t.Name()] == nil {
			known[t.Name()] = &proof{condition: m.opts.Conditions[t.Name()], begun: ledBegun}
		}
		all[i] = &member{table: t}
	}
	for {
		looked, unfit := false, []error(nil)
		for _, one := range all {
			looked = m.step(ctx, one, known[one.table.Name()], kept) || looked
			unfit = append(unfit, one.why)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if !slices.Contains(unfit, nil) {
			return errors.Join(unfit...)
		}
		if looked {
			m.report(problemsOf(all))
		}
		if err := sleep(ctx, tick); err != nil {
			return err
		}
	}
}

// step does what is due for a table, and reports whether it has looked at the table.
func (m *Marker) step(ctx context.Context, one *member, p *proof, kept cdc.Kept) (looked bool) {
	if one.sweep == nil {
		if time.Now().Before(one.next) {
			return false
		}
		if one.why = one.table.Verify(ctx); one.why == nil {
			one.sweep = m.newSweep(one.table, p, kept)
		}
		looked = true
	}
	if one.why == nil {
		looked, one.why = one.sweep.step(ctx)
	}
	if one.why != nil {
		m.metrics.errors.Inc()
		one.sweep, one.next = nil, time.Now().Add(longestPause)
		looked = true
	}
	return looked
}

func problemsOf(all []*member) (problems []error) {
	for _, one := range all {
		if one.sweep != nil {
			problems = append(problems, one.sweep.problems()...)
		} else {
			problems = append(problems, fmt.Errorf("published rows not marked: %w", one.why))
		}
	}
	return problems
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

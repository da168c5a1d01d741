// Package conformance is what every source does alike, whatever its SQL is. Each function with a *testing.T is a test, which the
// packages of the sources run on every server that they support. What only one database does is tested there.
package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/cleanup"
	"github.com/cdc-relay/cdc-relay/internal/relay"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// Database is a database for one test. Its methods fail the test on an error.
type Database interface {
	// Exec runs statements in one session.
	Exec(statements ...string)
	// Hold runs statements in a transaction of another session, which ends with end.
	Hold(statements ...string) (end func(commit bool))
	// Text returns the one value that a query selects, as text.
	Text(query string) string
	// Ago is the SQL of the time some days ago, TimeType a type for it.
	Ago(days int) string
	TimeType() string
	// Rows are those of table events, with the columns id and at, which role deletes; "": the owner. It returns what Verify says.
	Rows(role string) (cleanup.Rows, error)
}

// Outbox is a database with an outbox table, which has daily partitions for the last four days.
type Outbox interface {
	Database

	// Insert commits the events from..to, made some days ago, in one transaction. The number of each is its aggregate_id.
	Insert(daysAgo, from, to int)
	// Numbers are those of a table's events, in order, with commas.
	Numbers(table string) string
	// Partitions are those of the table, as the relay's role maintains them.
	Partitions() cleanup.Partitions
	// Save sets the position that Partitions and Rows take for the relay's, Relayed to the end of the WAL or binlog.
	Save(c cdc.Checkpoint)
	Relayed()
	// Restore leaves a table that was taken out as a dump does that is restored.
	Restore(table string)
	// Reader reads the table, and what was taken out of it, by SQL.
	Reader() tableread.Table
	// ReaderOf reads another table by SQL.
	ReaderOf(table string, o tableread.ReadOptions) tableread.Table
	// Source is a new source. Without a checkpoint it begins where the table was made.
	Source() relay.Source
	// Begin is the checkpoint at that place.
	Begin() cdc.Resumer
	// Free waits until another source can become the leader, Cut ends the leader's connection.
	Free()
	Cut()
}

// patience is the time limit of each wait, long enough for a busy machine.
func patience() time.Duration { return cdctest.Patience(2 * time.Minute) }

// running is a source that runs, and the queue that it hands its batches to.
type running struct {
	t      *testing.T
	source relay.Source
	id     cdc.Source
	cancel context.CancelFunc
	done   chan error

	mu      sync.Mutex
	numbers []int
	seq     uint64
	changed chan struct{}
}

// start runs a source until the test ends.
func start(t *testing.T, s relay.Source, load cdc.Resumer) *running {
	t.Helper()
	r := &running{t: t, source: s, changed: make(chan struct{}, 1)}
	r.run(load)
	t.Cleanup(r.stop)
	return r
}

// run begins, or goes on after the source has ended.
func (r *running) run(load cdc.Resumer) {
	r.t.Helper()
	var err error
	if r.id, _, err = r.source.Acquire(r.t.Context(), load); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	done := make(chan error, 1)
	r.cancel, r.done = cancel, done
	go func() { done <- r.source.Run(ctx, r) }()
}

// stop ends the source, also if it has ended.
func (r *running) stop() {
	r.cancel()
	select {
	case err, open := <-r.done:
		if open && err != nil {
			r.t.Error(err)
		}
	case <-time.After(patience()):
		r.t.Fatal("the source is still running")
	}
	r.ended()
}

// fails waits until the source ends with an error.
func (r *running) fails() {
	r.t.Helper()
	select {
	case err := <-r.done:
		if err == nil {
			r.t.Fatal("it ended without an error")
		}
	case <-time.After(patience()):
		r.t.Fatal("the source is still running")
	}
	r.ended()
}

// ended has a later stop find that the source has ended.
func (r *running) ended() {
	r.done = make(chan error)
	close(r.done)
}

// Offer keeps the numbers of the rows, and confirms them.
func (r *running) Offer(b *cdc.Batch) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seq > 0 && b.Seq != r.seq+1 {
		cdctest.Violation(r.t, cdctest.Order, "seq %d after %d", b.Seq, r.seq)
	}
	r.seq = b.Seq
	for row := range b.Rows() {
		column := b.Table.Index("aggregate_id")
		raw, _ := b.Value(row, column)
		text, err := b.Table.Columns[column].Form.AppendText(nil, raw)
		n, numeric := strconv.Atoi(string(text))
		if err != nil || numeric != nil {
			cdctest.Violation(r.t, cdctest.Content, "row %d of seq %d: %q: %v", row, b.Seq, text, err)
		}
		r.numbers = append(r.numbers, n)
	}
	r.source.Confirm(b.Seq)
	b.Release()
	select {
	case r.changed <- struct{}{}:
	default:
	}
	return true
}

func (r *running) Space() <-chan struct{} { return nil }

// expect waits for the events from..to, which must be the only ones, in order.
func (r *running) expect(from, to int) {
	r.t.Helper()
	var want []int
	for n := from; n <= to; n++ {
		want = append(want, n)
	}
	for deadline := time.After(patience()); ; {
		r.mu.Lock()
		got := slices.Clone(r.numbers)
		r.mu.Unlock()
		if len(got) >= len(want) {
			if !slices.Equal(got, want) {
				cdctest.Violation(r.t, cdctest.Difference(got, want), "got %.200s, want %d..%d", fmt.Sprint(got), from, to)
				r.t.FailNow()
			}
			return
		}
		select {
		case <-r.changed:
		case err := <-r.done:
			r.t.Fatalf("the source ended behind %.200s, want %d..%d: %v", fmt.Sprint(got), from, to, err)
		case <-deadline:
			r.t.Fatalf("have %.200s after %s, want %d..%d", fmt.Sprint(got), patience(), from, to)
		}
	}
}

// checkpoint is behind all rows so far.
func (r *running) checkpoint() cdc.Checkpoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cdc.Checkpoint{Source: r.id, Progress: r.source.Progress(r.seq)}
}

func from(c cdc.Checkpoint) cdc.Resumer {
	return func(context.Context, cdc.Source) (cdc.Checkpoint, bool, error) { return c, true, nil }
}

// Maintain returns what one pass leaves undone.
func Maintain(t *testing.T, p cleanup.Partitions, o cleanup.PartitionOptions) error {
	t.Helper()
	open := func(context.Context) ([]cleanup.Partitions, func(), error) {
		return []cleanup.Partitions{p}, func() {}, nil
	}
	return cleanup.NewPartitioner(o, open, slog.New(slog.DiscardHandler), prometheus.NewRegistry()).Maintain(t.Context())
}

// List returns the partitions and what was taken out.
func List(t *testing.T, p cleanup.Partitions) []cdc.Partition {
	t.Helper()
	parts, _, err := p.List(t.Context())
	testenv.Must(t, err)
	return parts
}

// takenOut are the partitions that were.
func takenOut(t *testing.T, d Outbox) (out []cdc.Partition) {
	t.Helper()
	for _, p := range List(t, d.Partitions()) {
		if p.Out {
			out = append(out, p)
		}
	}
	return out
}

// Day returns the partition of a day.
func Day(t *testing.T, p cleanup.Partitions, daysAgo int) cdc.Partition {
	t.Helper()
	at, parts := time.Now().UTC().AddDate(0, 0, -daysAgo), List(t, p)
	i := slices.IndexFunc(parts, func(p cdc.Partition) bool {
		return !p.Default && !p.Out && !p.Since.After(at) && p.Until.After(at)
	})
	if i < 0 {
		t.Fatalf("no partition of %d days ago in %v", daysAgo, parts)
	}
	return parts[i]
}

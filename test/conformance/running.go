package conformance

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/relay"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// patience is the time limit of each wait, long enough for a busy machine.
func patience() time.Duration { return cdctest.Patience(2 * time.Minute) }

// Queue keeps the rows of all batches as text.
type Queue struct {
	Confirm func(seq uint64) // nil: the source's
	Each    func(*cdc.Batch) // nil: not called
	Limit   int              // refuses batches once it holds this many rows; 0: no limit
	Changed chan struct{}    // receives after a batch

	t       *testing.T
	number  string
	space   chan struct{}
	mu      sync.Mutex
	rows    []map[string]string
	columns []cdc.Column
	seq     uint64
}

// NewQueue returns a queue for rows that have their numbers in a column.
func NewQueue(t *testing.T, number string) *Queue {
	t.Helper()
	return &Queue{t: t, number: number, space: make(chan struct{}, 1), Changed: make(chan struct{}, 1)}
}

// Offer keeps the rows of a batch, and confirms it.
func (q *Queue) Offer(b *cdc.Batch) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.Limit > 0 && len(q.rows) >= q.Limit {
		return false
	}
	if q.seq > 0 && b.Seq != q.seq+1 {
		cdctest.Violation(q.t, cdctest.Order, "seq %d after %d", b.Seq, q.seq)
	}
	q.seq = b.Seq
	for row := range b.Rows() {
		q.columns = b.Table.Columns
		values := map[string]string{}
		for i, c := range b.Table.Columns {
			if raw, ok := b.Value(row, i); ok {
				text, err := c.Form.AppendText(nil, raw)
				if err != nil {
					text = []byte(err.Error())
				}
				values[c.Name] = string(text)
			}
		}
		q.rows = append(q.rows, values)
	}
	if q.Each != nil {
		q.Each(b)
	}
	q.Confirm(b.Seq)
	b.Release()
	select {
	case q.Changed <- struct{}{}:
	default:
	}
	return true
}

// Space tells that there is room again.
func (q *Queue) Space() <-chan struct{} { return q.space }

// Room lifts the limit.
func (q *Queue) Room() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.Limit = 0
	q.space <- struct{}{}
}

// Rows are those so far, by column. NULL is missing.
func (q *Queue) Rows() []map[string]string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rows
}

// Columns are those of the last row's table.
func (q *Queue) Columns() []cdc.Column {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.columns
}

// Last is the number of the last batch.
func (q *Queue) Last() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.seq
}

// Numbers are those of the rows so far.
func (q *Queue) Numbers() (numbers []int) {
	for i, row := range q.Rows() {
		n, err := strconv.Atoi(row[q.number])
		if err != nil {
			cdctest.Violation(q.t, cdctest.Content, "row %d: %v", i, err)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// Running is a source that runs until Stop or the end of the test. A test that does not ask how it ended fails if it ended with an error.
type Running struct {
	*Queue
	Source relay.Source
	Done   chan struct{} // closed at the end of Run

	id     cdc.Source
	cancel context.CancelFunc
	err    error // of Run
	asked  bool
}

// Start acquires a source and runs it.
func Start(t *testing.T, s relay.Source, q *Queue, load cdc.Resumer) *Running {
	t.Helper()
	id, _, err := s.Acquire(t.Context(), load)
	testenv.Must(t, err)
	r := Run(t, s, q)
	r.id = id
	return r
}

// Run runs a source that was acquired.
func Run(t *testing.T, s relay.Source, q *Queue) *Running {
	t.Helper()
	if q.Confirm == nil {
		q.Confirm = s.Confirm
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &Running{Queue: q, Source: s, Done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(r.Done)
		r.err = s.Run(ctx, q)
	}()
	t.Cleanup(func() {
		if asked := r.asked; r.Stop() != nil && !asked {
			t.Errorf("the source ended with %v", r.err)
		}
	})
	return r
}

// Again runs the source once more after it has ended, into the same queue.
func (r *Running) Again(load cdc.Resumer) *Running {
	r.t.Helper()
	return Start(r.t, r.Source, r.Queue, load)
}

// Stop ends the source, also if it has ended, and returns Run's error.
func (r *Running) Stop() error {
	r.t.Helper()
	r.cancel()
	return r.Ended()
}

// MustStop ends the source, which has to end without an error.
func (r *Running) MustStop() {
	r.t.Helper()
	testenv.Must(r.t, r.Stop())
}

// Ended waits until Run returns, and returns its error.
func (r *Running) Ended() error {
	r.t.Helper()
	r.asked = true
	select {
	case <-r.Done:
		return r.err
	case <-time.After(patience()):
		r.t.Fatal("the source is still running")
		return nil
	}
}

// ended reports whether Run has returned. It is asked before the rows are looked at: the last ones count.
func (r *Running) ended() bool {
	select {
	case <-r.Done:
		return true
	default:
		return false
	}
}

// EndedBehind is Ended behind the first n rows. Further rows end the test at once: what stands between was passed over.
func (r *Running) EndedBehind(n int) error {
	r.t.Helper()
	for limit := time.After(patience()); ; {
		ended := r.ended()
		if rows := len(r.Rows()); rows > n {
			cdctest.Violation(r.t, cdctest.Lost, "%d rows were handed on, want %d", rows, n)
			r.t.FailNow()
		}
		if ended {
			return r.Ended()
		}
		select {
		case <-r.Done:
		case <-r.Changed:
		case <-limit:
			r.t.Fatal("the source is still running")
		}
	}
}

// Await returns the rows once there are n.
func (r *Running) Await(n int) []map[string]string {
	r.t.Helper()
	for limit := time.After(patience()); ; {
		ended := r.ended()
		rows := r.Rows()
		if len(rows) >= n {
			return rows
		}
		if ended {
			r.t.Fatalf("the source ended with %d rows, want %d: %v", len(rows), n, r.err)
		}
		select {
		case <-r.Changed:
		case <-r.Done:
		case <-limit:
			r.t.Fatalf("%d rows after %s, want %d", len(rows), patience(), n)
		}
	}
}

// Expect waits for as many rows, which must be those that are wanted, in order.
func (r *Running) Expect(want ...int) {
	r.t.Helper()
	r.Await(len(want))
	Same(r.t, r.Numbers(), want)
}

// ExpectUpTo is Expect for the numbers first..last.
func (r *Running) ExpectUpTo(first, last int) {
	r.t.Helper()
	var want []int
	for n := first; n <= last; n++ {
		want = append(want, n)
	}
	r.Expect(want...)
}

// Same ends the test if the numbers of rows are not those that are wanted.
func Same(t *testing.T, got, want []int) {
	t.Helper()
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	if i < max(len(got), len(want)) {
		cdctest.Violation(t, cdctest.Difference(got, want), "%d rows, want %d; from row %d on %.200s, want %.200s",
			len(got), len(want), i, fmt.Sprint(got[i:]), fmt.Sprint(want[i:]))
		t.FailNow()
	}
}

// Progress is behind all rows so far.
func (r *Running) Progress() cdc.Progress { return r.Source.Progress(r.Last()) }

// Checkpoint is behind all rows so far.
func (r *Running) Checkpoint() cdc.Checkpoint {
	return cdc.Checkpoint{Source: r.id, Progress: r.Progress()}
}

// From resumes at a checkpoint.
func From(c cdc.Checkpoint) cdc.Resumer {
	return func(context.Context, cdc.Source) (cdc.Checkpoint, bool, error) { return c, true, nil }
}

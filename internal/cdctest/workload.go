package cdctest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Workload writes to the outbox as applications do: several writers, many keys, transactions of one and of many rows, some
// of them long, rolled back or with savepoints. The seqs of a key follow commit order, because a transaction locks its
// keys until it ends.
type Workload struct {
	DB Database
	// Prefix is the prefix of the keys.
	Prefix string
	// Writers and Keys are the numbers of writers and keys; 0 is 4 and 64.
	Writers, Keys int
	// Pause is the mean time between two transactions of a writer; 0 is 20 ms.
	Pause time.Duration
	// Rows is the most rows of a key in most transactions; 0 is 8. Some have up to ten times as many.
	Rows int
	// Size is the approximate size of a payload in bytes; 0 is 200.
	Size int
	Seed uint64
}

// Load is a running workload.
type Load struct {
	Workload
	Ledger *Ledger

	cancel context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex
	errs   []error
}

// Start starts the writers. They run until Stop or until ctx ends, and retry while the database is away.
func (w Workload) Start(ctx context.Context) *Load {
	w.Writers, w.Keys, w.Rows, w.Size = orElse(w.Writers, 4), orElse(w.Keys, 64), orElse(w.Rows, 8), orElse(w.Size, 200)
	w.Pause, w.Prefix = orElse(w.Pause, 20*time.Millisecond), orElse(w.Prefix, "k")
	ctx, cancel := context.WithCancel(ctx)
	l := &Load{Workload: w, Ledger: &Ledger{}, cancel: cancel}
	for i := range w.Writers {
		l.done.Go(func() {
			if err := l.write(ctx, rand.New(rand.NewPCG(w.Seed, uint64(i)))); err != nil {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.errs = append(l.errs, fmt.Errorf("writer %d: %w", i, err))
			}
		})
	}
	return l
}

func orElse[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Stop lets the writers finish their transactions and returns the first error.
func (l *Load) Stop() error {
	l.cancel()
	l.done.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.errs...)
}

// write runs transactions, with a new session whenever one was lost.
func (l *Load) write(ctx context.Context, random *rand.Rand) error {
	for ctx.Err() == nil {
		session, err := l.DB.Connect(ctx)
		if err == nil {
			err = l.transactions(ctx, session, random)
			session.Close()
		}
		if err != nil && ctx.Err() == nil && !l.DB.Away(err) {
			return err
		}
		pause(ctx, 20*time.Millisecond)
	}
	return nil
}

// pause waits for d. It returns false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func (l *Load) transactions(ctx context.Context, session Session, random *rand.Rand) error {
	for ctx.Err() == nil {
		// Stop does not interrupt a transaction, so that its outcome is known.
		if err := l.transaction(context.WithoutCancel(ctx), session, random); err != nil {
			return err
		}
		pause(ctx, time.Duration(random.Int64N(int64(2*l.Pause))))
	}
	return nil
}

// draft is an open transaction.
type draft struct {
	session Session
	random  *rand.Rand
	// kept are the events that will be committed, undone those that were rolled back to a savepoint.
	kept, undone []uuid.UUID
}

func (l *Load) transaction(ctx context.Context, session Session, random *rand.Rand) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	d := &draft{session: session, random: random}
	err := l.compose(ctx, d)
	defer func() { l.Ledger.undo(d.undone, &l.Ledger.savepoints) }()
	if err != nil {
		l.Ledger.undo(d.kept, nil)
		return err
	}
	if random.IntN(10) == 0 {
		l.Ledger.undo(d.kept, &l.Ledger.aborted)
		return session.Rollback(ctx)
	}
	if err := session.Commit(ctx); err != nil {
		l.Ledger.doubt(d.kept)
		return err
	}
	l.Ledger.commit(d.kept)
	return nil
}

// compose fills an open transaction.
func (l *Load) compose(ctx context.Context, d *draft) error {
	if err := d.session.Begin(ctx); err != nil {
		return err
	}
	keys := l.pick(d.random)
	for _, key := range keys {
		ids, err := l.append(ctx, d, key)
		if d.kept = append(d.kept, ids...); err != nil {
			return err
		}
	}
	last := keys[len(keys)-1]
	if d.random.IntN(7) == 0 {
		if err := l.detour(ctx, d, last); err != nil {
			return err
		}
	}
	if d.random.IntN(5) == 0 { // others commit meanwhile
		pause(ctx, time.Duration(d.random.Int64N(int64(20*time.Millisecond))))
	}
	return nil
}

// detour sets a savepoint, appends, rolls back to it, and sometimes appends again.
func (l *Load) detour(ctx context.Context, d *draft, key string) error {
	if err := d.session.Savepoint(ctx); err != nil {
		return err
	}
	ids, err := l.append(ctx, d, key)
	if d.undone = append(d.undone, ids...); err != nil {
		return err
	}
	if err := d.session.RollbackToSavepoint(ctx); err != nil {
		return err
	}
	if d.random.IntN(2) == 0 {
		return nil
	}
	ids, err = l.append(ctx, d, key)
	d.kept = append(d.kept, ids...)
	return err
}

// pick returns one to three keys in ascending order, so that transactions do not deadlock.
func (l *Load) pick(random *rand.Rand) []string {
	keys := make([]string, 1+random.IntN(3))
	for i := range keys {
		keys[i] = fmt.Sprintf("%s%04d", l.Prefix, random.IntN(l.Keys))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func (l *Load) append(ctx context.Context, d *draft, key string) ([]uuid.UUID, error) {
	rows := 1 + d.random.IntN(l.Rows)
	if d.random.IntN(50) == 0 {
		rows *= 10
	}
	first, err := d.session.Reserve(ctx, key, rows)
	if err != nil {
		return nil, err
	}
	events := make([]*Event, rows)
	ids := make([]uuid.UUID, rows)
	for i := range events {
		events[i] = l.event(key, first+i, d.random)
		ids[i] = events[i].ID
	}
	return ids, d.session.Insert(ctx, events)
}

func (l *Load) event(key string, seq int, random *rand.Rand) *Event {
	e := NewEvent(key, seq, l.Size/2+random.IntN(l.Size))
	if random.IntN(4) == 0 {
		e.Headers = map[string]string{"traceparent": fmt.Sprintf("00-%016x-01", random.Uint64()), "note": "grüße, \"" + key + `\"`}
	}
	return e
}

// NewEvent returns an event of key with a payload of size bytes.
func NewEvent(key string, seq, size int) *Event {
	return &Event{
		ID: uuid.Must(uuid.NewV7()), Key: key, Seq: seq, AggregateType: "Order", Type: "OrderPlaced",
		ContentType: "text/plain", OccurredAt: time.Now().UTC().Truncate(time.Microsecond), Payload: Payload(key, seq, size),
	}
}

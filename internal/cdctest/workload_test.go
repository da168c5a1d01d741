package cdctest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// Seqs follow commit order, and the ledger has the outcome of every transaction, including those whose COMMIT had no
// answer.
func TestWorkload(t *testing.T) {
	db := newMemory()
	load := cdctest.Workload{DB: db, Writers: 8, Keys: 5, Pause: time.Millisecond, Seed: 7}.Start(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := cdctest.Await(ctx, "transactions", func(context.Context) (bool, error) { return load.Ledger.Transactions() > 500, nil }); err != nil {
		t.Fatal(err)
	}
	if err := load.Stop(); err != nil {
		t.Fatal(err)
	}
	truth := cdctest.NewTruth(topic, source)
	next := map[string]int{}
	for _, e := range db.log {
		if next[e.Key]++; e.Seq != next[e.Key] {
			t.Fatalf("seq %d of key %s was committed as the %dth", e.Seq, e.Key, next[e.Key])
		}
		if err := truth.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := load.Ledger.Check(truth); err != nil {
		t.Error(err)
	}
	if sure := load.Ledger.Committed(); sure > len(db.log) || sure < len(db.log)/2 {
		t.Errorf("the ledger has %d committed events, the log has %d", sure, len(db.log))
	}
	if db.rollbacks == 0 || db.detours == 0 || db.cuts == 0 || load.Ledger.Largest() < 20 {
		t.Errorf("%d rollbacks, %d savepoints, %d lost connections, largest transaction %d: want more of each",
			db.rollbacks, db.detours, db.cuts, load.Ledger.Largest())
	}
}

func TestLedgerFindsLostAndRolledBackRows(t *testing.T) {
	db := newMemory()
	load := cdctest.Workload{DB: db, Writers: 1, Pause: time.Millisecond}.Start(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := cdctest.Await(ctx, "a rollback", func(context.Context) (bool, error) {
		db.mu.Lock()
		defer db.mu.Unlock()
		return db.undone != nil && len(db.log) > 0, nil
	})
	if err := errors.Join(err, load.Stop()); err != nil {
		t.Fatal(err)
	}
	truth := func(events ...*cdctest.Event) *cdctest.Truth {
		tr := cdctest.NewTruth(topic, source)
		for _, e := range events {
			if err := tr.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		return tr
	}
	if err := load.Ledger.Check(truth(db.log...)); err != nil {
		t.Errorf("the correct table: %v", err)
	}
	if load.Ledger.Check(truth(db.log[1:]...)) == nil {
		t.Error("a lost row is not reported")
	}
	if load.Ledger.Check(truth(append(db.log, db.undone)...)) == nil {
		t.Error("a row that was rolled back is not reported")
	}
}

var errAway = errors.New("connection lost")

// memory is a database in memory: rows are locked by key, and a commit appends to the log. Some connections are lost,
// before or after the commit.
type memory struct {
	cdctest.Database // other methods are not called

	mu                       sync.Mutex
	unlocked                 *sync.Cond
	locks                    map[string]*memorySession
	seqs                     map[string]int
	log                      []*cdctest.Event
	undone                   *cdctest.Event // one that was rolled back
	rollbacks, detours, cuts int
	commits                  int
}

func newMemory() *memory {
	m := &memory{locks: map[string]*memorySession{}, seqs: map[string]int{}}
	m.unlocked = sync.NewCond(&m.mu)
	return m
}

func (m *memory) Away(err error) bool { return errors.Is(err, errAway) }

func (m *memory) Connect(context.Context) (cdctest.Session, error) { return &memorySession{db: m}, nil }

type memorySession struct {
	db    *memory
	seqs  map[string]int
	rows  []*cdctest.Event
	seqs2 map[string]int // at the savepoint
	rows2 int
}

func (s *memorySession) Begin(context.Context) error {
	s.seqs, s.rows = map[string]int{}, nil
	return nil
}

func (s *memorySession) Reserve(_ context.Context, key string, n int) (int, error) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	for s.db.locks[key] != nil && s.db.locks[key] != s {
		s.db.unlocked.Wait()
	}
	s.db.locks[key] = s
	if _, ok := s.seqs[key]; !ok {
		s.seqs[key] = s.db.seqs[key]
	}
	s.seqs[key] += n
	return s.seqs[key] - n + 1, nil
}

func (s *memorySession) Insert(_ context.Context, events []*cdctest.Event) error {
	for i, e := range events {
		if want := s.seqs[e.Key] - len(events) + 1 + i; e.Seq != want {
			return fmt.Errorf("seq %d of key %s was not reserved, want %d", e.Seq, e.Key, want)
		}
	}
	s.rows = append(s.rows, events...)
	return nil
}

func (s *memorySession) Savepoint(context.Context) error {
	s.seqs2, s.rows2 = maps.Clone(s.seqs), len(s.rows)
	return nil
}

func (s *memorySession) RollbackToSavepoint(context.Context) error {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.db.detours++
	s.seqs, s.rows = s.seqs2, slices.Clip(s.rows[:s.rows2])
	return nil
}

func (s *memorySession) Commit(context.Context) error {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.db.commits++
	lost := s.db.commits%40 == 0
	if !lost || s.db.commits%80 == 0 {
		maps.Copy(s.db.seqs, s.seqs)
		s.db.log = append(s.db.log, s.rows...)
	}
	s.release()
	if lost {
		s.db.cuts++
		return errAway
	}
	return nil
}

func (s *memorySession) release() {
	maps.DeleteFunc(s.db.locks, func(_ string, holder *memorySession) bool { return holder == s })
	s.db.unlocked.Broadcast()
}

func (s *memorySession) Rollback(context.Context) error {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.db.rollbacks++
	if len(s.rows) > 0 {
		s.db.undone = s.rows[0]
	}
	s.release()
	return nil
}

func (s *memorySession) Close() {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.release()
}

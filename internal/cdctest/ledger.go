package cdctest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"
)

// Ledger records the outcome of the writers' transactions. Safe for concurrent use.
type Ledger struct {
	mu                    sync.Mutex
	committed, rolledBack []uuid.UUID
	// doubtful are events whose COMMIT had no answer: only the table shows whether they were committed.
	doubtful []uuid.UUID
	// transactions is how many were committed, largest the most events of one.
	transactions, largest int
	// aborted is how many were rolled back on purpose, savepoints how many in part.
	aborted, savepoints int
}

func (l *Ledger) commit(ids []uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.committed = append(l.committed, ids...)
	l.transactions++
	l.largest = max(l.largest, len(ids))
}

func (l *Ledger) doubt(ids []uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubtful = append(l.doubtful, ids...)
	l.largest = max(l.largest, len(ids))
}

// undo counts in kind, which is aborted, savepoints or nil.
func (l *Ledger) undo(ids []uuid.UUID, kind *int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rolledBack = append(l.rolledBack, ids...)
	if kind != nil && len(ids) > 0 {
		*kind++
	}
}

// uniform reports whether many transactions were committed and none was rolled back, or none in part.
func (l *Ledger) uniform() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.transactions > 1000 && (l.aborted == 0 || l.savepoints == 0)
}

// Committed returns how many events were certainly committed.
func (l *Ledger) Committed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.committed)
}

// RolledBack returns how many events were rolled back, with their transaction or to a savepoint.
func (l *Ledger) RolledBack() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.rolledBack)
}

// Transactions returns how many transactions were certainly committed.
func (l *Ledger) Transactions() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.transactions
}

// Largest returns the most events of one transaction.
func (l *Ledger) Largest() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.largest
}

// String returns a summary.
func (l *Ledger) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%d events in %d transactions committed, %d rolled back, %d in doubt",
		len(l.committed), l.transactions, len(l.rolledBack), len(l.doubtful))
}

// Check compares the table with the outcomes that the server reported. A table that lost a committed row, or kept one that
// was rolled back, would make every other check meaningless.
func (l *Ledger) Check(t *Truth) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, id := range l.committed {
		if !t.Has(id) {
			errs = append(errs, fmt.Errorf("event %s was committed and is not in the table", id))
		}
	}
	for _, id := range l.rolledBack {
		if t.Has(id) {
			errs = append(errs, fmt.Errorf("event %s was rolled back and is in the table", id))
		}
	}
	if len(errs) > mostShown {
		errs = append(errs[:mostShown], fmt.Errorf("and %d more", len(errs)-mostShown))
	}
	return errors.Join(errs...)
}

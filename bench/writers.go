package main

import (
	"context"
	"database/sql"
	"sync"
	"time"
)

// writers share a load, and time their INSERTs. A new one waits only if all are busy.
type writers struct {
	db        *sql.DB
	statement string
	failed    chan error

	busy    sync.WaitGroup
	slots   chan struct{}
	mu      sync.Mutex // of inserts
	inserts *stopwatch
}

func newWriters(db *sql.DB, statement string, inserts *stopwatch) *writers {
	db.SetMaxOpenConns(usualWriters)
	db.SetMaxIdleConns(usualWriters)
	return &writers{db: db, statement: statement, failed: make(chan error, usualWriters), slots: make(chan struct{}, usualWriters), inserts: inserts}
}

// insert begins the i-th INSERT. It returns the error of an earlier one.
func (w *writers) insert(ctx context.Context, clock *stopwatch, i int) error {
	select {
	case err := <-w.failed:
		return err
	case w.slots <- struct{}{}:
	}
	w.busy.Go(func() {
		key, payload := numbered(i)
		clock.start(i, 1)
		w.inserts.start(i, 1)
		_, err := w.db.ExecContext(ctx, w.statement, key, payload)
		w.mu.Lock()
		w.inserts.stop(i, time.Now())
		w.mu.Unlock()
		if err != nil {
			w.failed <- err
		}
		<-w.slots
	})
	return nil
}

// wait waits for the INSERTs.
func (w *writers) wait() error {
	w.busy.Wait()
	select {
	case err := <-w.failed:
		return err
	default:
		return nil
	}
}

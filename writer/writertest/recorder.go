package writertest

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"slices"
	"sync"

	"github.com/cdc-relay/cdc-relay/writer"
)

// Recorder is a [Reader] of what was appended to its transactions, without a database. Its zero value is ready, and it is
// safe for concurrent use, but rolls back only one transaction at a time.
type Recorder struct {
	mu   sync.Mutex
	rows []writer.Row
}

// Option is for the writer whose events are recorded.
func (r *Recorder) Option() writer.Option {
	return writer.WithObserver(func(_ context.Context, rows []writer.Row) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for i := range rows {
			row := rows[i]
			row.Payload = bytes.Clone(row.Payload)
			r.rows = append(r.rows, row)
		}
	})
}

// Tx returns a transaction that accepts every statement. A rollback without a commit forgets what was appended since.
func (r *Recorder) Tx() writer.Tx {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &recorded{r: r, start: len(r.rows)}
}

func (r *Recorder) events(context.Context, Table) (events []*writer.Event, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.rows {
		row := &r.rows[i]
		e := &writer.Event{
			ID: row.EventID, AggregateType: row.AggregateType, AggregateID: row.AggregateID, Type: row.EventType,
			TenantID: row.TenantID, Topic: row.Topic, PartitionKey: row.PartitionKey, ContentType: row.ContentType,
			SchemaID: row.SchemaID, SchemaVersion: int(row.SchemaVersion), OccurredAt: row.OccurredAt,
			Payload: row.Payload, Tombstone: row.Payload == nil,
		}
		if row.Headers != "" {
			if err := json.Unmarshal([]byte(row.Headers), &e.Headers); err != nil {
				return nil, err
			}
		}
		events = append(events, e)
	}
	return events, nil
}

type recorded struct {
	r     *Recorder
	start int
	done  bool
}

func (t *recorded) ExecContext(ctx context.Context, _ string, _ ...any) (sql.Result, error) {
	if t.done {
		return nil, sql.ErrTxDone
	}
	return driver.RowsAffected(1), ctx.Err()
}

func (t *recorded) Commit() error {
	if t.done {
		return sql.ErrTxDone
	}
	t.done = true
	return nil
}

func (t *recorded) Rollback() error {
	if t.done {
		return sql.ErrTxDone
	}
	t.done = true
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	t.r.rows = slices.Delete(t.r.rows, t.start, len(t.r.rows))
	return nil
}

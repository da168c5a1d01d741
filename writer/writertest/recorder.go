package writertest

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/writer"
)

// Recorder is a [Reader] of what was appended to its transactions, without a database. Its zero value is ready, and it is
// safe for concurrent use.
type Recorder struct {
	mu   sync.Mutex
	rows []row
	sent map[uuid.UUID]*recorded // whose statement had this ID last
}

type row struct {
	writer.Row

	tx *recorded
}

// Option is for the writer whose events are recorded.
func (r *Recorder) Option() writer.Option {
	return writer.WithObserver(func(_ context.Context, rows []writer.Row) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for i := range rows {
			recorded := row{rows[i], r.sent[rows[i].EventID]}
			recorded.Payload = bytes.Clone(recorded.Payload)
			r.rows = append(r.rows, recorded)
		}
	})
}

// Tx returns a transaction that accepts every statement. A rollback without a commit forgets what was appended in it.
func (r *Recorder) Tx() writer.Tx { return &recorded{r: r} }

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
	r    *Recorder
	done bool
}

// ExecContext remembers the IDs among the arguments, because an observer is not told the transaction. They are text, or
// several in an array: a literal, or one of pgx.
func (t *recorded) ExecContext(ctx context.Context, _ string, args ...any) (sql.Result, error) {
	if t.done {
		return nil, sql.ErrTxDone
	}
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	if t.r.sent == nil {
		t.r.sent = map[uuid.UUID]*recorded{}
	}
	for _, arg := range args {
		texts, _ := arg.([]string)
		if literal, ok := arg.(string); ok {
			texts = strings.Split(strings.Trim(literal, "{}"), ",")
		}
		for _, text := range texts {
			if id, err := uuid.Parse(text); err == nil {
				t.r.sent[id] = t
			}
		}
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
	t.r.rows = slices.DeleteFunc(t.r.rows, func(r row) bool { return r.tx == t })
	return nil
}

package writertest

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/writer"
)

// Recorder is a [Reader] of what was appended to its transactions, without a database. Its zero value is ready, and it is
// safe for concurrent use.
type Recorder struct {
	// Answer, if set, is called for each statement and for "COMMIT", also by several goroutines at once. It returns how many rows the
	// statement changes, or how it fails; without it each changes one. A commit that fails rolls back. Set it before the first use.
	Answer func(statement string) (changed int64, err error)

	mu   sync.Mutex
	rows []row
	sent map[uuid.UUID]*recorded // whose statement had this ID last
}

type row struct {
	event *writer.Event
	tx    *recorded
}

// Option is for the writer whose events are recorded.
func (r *Recorder) Option() writer.Option {
	return writer.WithObserver(func(_ context.Context, events []*writer.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, e := range events {
			copied := *e
			copied.Headers, copied.Payload = maps.Clone(e.Headers), bytes.Clone(e.Payload)
			copied.ContentType, copied.OccurredAt = cmp.Or(e.ContentType, "application/json"), e.OccurredAt.UTC().Truncate(time.Microsecond) // as the table has them
			r.rows = append(r.rows, row{&copied, r.sent[e.ID]})
		}
	})
}

// Tx returns a transaction that accepts every statement. A rollback without a commit forgets what was appended in it.
func (r *Recorder) Tx() writer.Tx { return &recorded{r: r} }

// DB returns a pool whose transactions are like [Recorder.Tx], for code that begins them: with [writer.SQL] for [writer.Run],
// or under sqlx, bun or GORM. A query finds no rows. The pool is closed after the test.
func (r *Recorder) DB(tb testing.TB) *sql.DB {
	tb.Helper()
	db := sql.OpenDB(&conn{r: r})
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

func (r *Recorder) events(context.Context, *writer.Writer) (events []*writer.Event, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, row := range r.rows {
		events = append(events, row.event)
	}
	return events, nil
}

func (r *Recorder) answer(ctx context.Context, statement string) (driver.RowsAffected, error) {
	if err := ctx.Err(); err != nil || r.Answer == nil {
		return 1, err
	}
	changed, err := r.Answer(statement)
	return driver.RowsAffected(changed), err
}

type recorded struct {
	r    *Recorder
	done bool
}

// ExecContext remembers the IDs among the arguments, because an observer is not told the transaction. They are text, or
// several in the literal of an array.
func (t *recorded) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if t.done {
		return nil, sql.ErrTxDone
	}
	changed, err := t.r.answer(ctx, query)
	if err != nil {
		return nil, err
	}
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	if t.r.sent == nil {
		t.r.sent = map[uuid.UUID]*recorded{}
	}
	for _, arg := range args {
		literal, _ := arg.(string)
		for text := range strings.SplitSeq(strings.Trim(literal, "{}"), ",") {
			if id, err := uuid.Parse(text); err == nil {
				t.r.sent[id] = t
			}
		}
	}
	return changed, nil
}

func (t *recorded) Commit() error {
	if t.done {
		return sql.ErrTxDone
	}
	if _, err := t.r.answer(context.Background(), "COMMIT"); err != nil {
		return errors.Join(err, t.Rollback())
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

// conn is the driver of [Recorder.DB], and its connections.
type conn struct {
	r  *Recorder
	tx *recorded // the last
}

func (c *conn) Connect(context.Context) (driver.Conn, error) { return &conn{r: c.r}, nil }
func (c *conn) Driver() driver.Driver                        { return nil }
func (c *conn) Close() error                                 { return nil }

func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return nil, errors.New("prepare " + query + ": a recorder prepares no statements: use a database for this test")
}

func (c *conn) Begin() (driver.Tx, error) { return c.BeginTx(context.Background(), driver.TxOptions{}) }

func (c *conn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	c.tx = &recorded{r: c.r}
	return c.tx, nil
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if c.tx == nil || c.tx.done {
		return c.r.answer(ctx, query)
	}
	values := make([]any, len(args))
	for i, a := range args {
		values[i] = a.Value
	}
	return c.tx.ExecContext(ctx, query, values...)
}

func (c *conn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return none{}, nil
}

// none is the result of a query.
type none struct{}

func (none) Columns() []string         { return nil }
func (none) Close() error              { return nil }
func (none) Next([]driver.Value) error { return io.EOF }

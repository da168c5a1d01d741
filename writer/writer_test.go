package writer_test

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/writer"
)

var _ writer.Tx = (*sql.Tx)(nil)

// statement is a statement that a recorder received.
type statement struct {
	query string
	args  []any
}

// recorder is a Tx without a database that records statements.
type recorder struct {
	statements []statement
	err        error
}

func (r *recorder) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	r.statements = append(r.statements, statement{query, args})
	return driver.RowsAffected(1), r.err
}

func (r *recorder) Commit() error   { return nil }
func (r *recorder) Rollback() error { return nil }

// columns is the number of arguments of a row.
const columns = 14

// ids returns the event IDs of the statement's rows, in order.
func (s statement) ids(t *testing.T) (ids []string) {
	t.Helper()
	if array, ok := s.args[0].(string); ok && strings.HasPrefix(array, "{") {
		for id := range strings.SplitSeq(strings.Trim(array, "{}"), ",") {
			ids = append(ids, uuid.MustParse(id).String())
		}
		return ids
	}
	for i := 0; i < len(s.args); i += columns {
		ids = append(ids, s.args[i].(string))
	}
	return ids
}

func newWriter(tb testing.TB, opts ...writer.Option) *writer.Writer {
	tb.Helper()
	w, err := writer.New(writer.Postgres, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

func mustAppend(t *testing.T, w *writer.Writer, tx writer.Tx, events ...*writer.Event) {
	t.Helper()
	if err := w.Append(t.Context(), tx, events...); err != nil {
		t.Fatal(err)
	}
}

func newEvent() *writer.Event {
	return &writer.Event{AggregateType: "Order", AggregateID: "o-1", Type: "OrderPlaced", Payload: []byte(`{}`)}
}

func newEvents(n int) []*writer.Event {
	events := make([]*writer.Event, n)
	for i := range events {
		events[i] = newEvent()
	}
	return events
}

func TestAppendOneEventIsAPlainInsert(t *testing.T) {
	tx := &recorder{}
	mustAppend(t, newWriter(t), tx, newEvent())
	const want = `INSERT INTO "outbox" (event_id, aggregate_type, aggregate_id, event_type, tenant_id, topic, ` +
		`partition_key, content_type, schema_id, schema_version, headers, payload, occurred_at, created_at) ` +
		`VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12::bytea, $13, COALESCE($14, now()))`
	if len(tx.statements) != 1 || tx.statements[0].query != want {
		t.Fatalf("statements:\n%v\nwant one:\n%s", tx.statements, want)
	}
}

func requireArgs(t *testing.T, got, want []any) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d arguments, want %d", len(got), len(want))
	}
	for i := range want {
		var same bool
		switch w := want[i].(type) {
		case time.Time:
			g, ok := got[i].(time.Time)
			same = ok && g.Equal(w) && g.Location() == w.Location()
		case []byte:
			g, ok := got[i].([]byte)
			same = ok && bytes.Equal(g, w)
		default:
			same = got[i] == w
		}
		if !same {
			t.Errorf("argument $%d is %#v, want %#v", i+1, got[i], want[i])
		}
	}
}

func TestAppendSetsIDAndTimeForRetries(t *testing.T) {
	w, e := newWriter(t), newEvent()
	first, second := &recorder{}, &recorder{}
	before := time.Now().Truncate(time.Microsecond)
	mustAppend(t, w, first, e)
	if e.ID.Version() != 7 || e.OccurredAt.Before(before) || e.OccurredAt.After(time.Now()) {
		t.Fatalf("filled in id %v (version %d) and time %v", e.ID, e.ID.Version(), e.OccurredAt)
	}
	if e.ContentType != "" {
		t.Errorf("the caller's ContentType was changed to %q", e.ContentType)
	}
	mustAppend(t, w, second, e)
	requireArgs(t, second.statements[0].args, first.statements[0].args)
}

func TestNewIDsAreAscending(t *testing.T) {
	tx := &recorder{}
	mustAppend(t, newWriter(t), tx, newEvents(10_000)...)
	last, seen := "", 0
	for _, s := range tx.statements {
		for _, id := range s.ids(t) {
			if id <= last {
				t.Fatalf("id %s after %s", id, last)
			}
			last = id
			seen++
		}
	}
	if seen != 10_000 {
		t.Errorf("%d rows, want 10000", seen)
	}
}

func TestAppendOfNothingDoesNothing(t *testing.T) {
	tx := &recorder{}
	if err := newWriter(t).Append(t.Context(), tx); err != nil || len(tx.statements) != 0 {
		t.Errorf("error %v, %d statements", err, len(tx.statements))
	}
}

func TestAppendRefusesANilTransaction(t *testing.T) {
	err := newWriter(t).Append(t.Context(), nil, newEvent())
	if !errors.Is(err, writer.ErrNoTransaction) || !strings.Contains(err.Error(), "transaction is nil") {
		t.Errorf("error %v", err)
	}
}

func TestAppendReturnsTheContextsError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tx, e := &recorder{}, newEvent()
	err := newWriter(t).Append(ctx, tx, e)
	if !errors.Is(err, context.Canceled) || len(tx.statements) != 0 || e.ID != uuid.Nil {
		t.Errorf("error %v, %d statements, id %v", err, len(tx.statements), e.ID)
	}
}

func TestWriterIsSafeForConcurrentUse(t *testing.T) {
	w := newWriter(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			tx := &recorder{}
			for n := range 40 {
				if err := w.Append(t.Context(), tx, newEvents(n+i)...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestAppendAllocatesLikeAHandWrittenInsert(t *testing.T) {
	query := oneRowQuery(t)
	allocatesLike(t, newWriter(t), func(ctx context.Context, tx writer.Tx, e *writer.Event) error {
		id := uuid.Must(uuid.NewV7())
		at := time.Now().UTC()
		_, err := tx.ExecContext(ctx, query, id.String(), e.AggregateType, e.AggregateID, e.Type, nil, nil, nil,
			"application/json", nil, nil, nil, e.Payload, at, at)
		return err
	})
}

// allocatesLike verifies that appending an event allocates no more than an INSERT by hand.
func allocatesLike(t *testing.T, w *writer.Writer, insert func(context.Context, writer.Tx, *writer.Event) error) {
	t.Helper()
	e, ctx := newEvent(), t.Context()
	tx := map[string]writer.Tx{"": &discard{}}[""] // hides the type from the compiler
	ours := testing.AllocsPerRun(200, func() {
		e.ID, e.OccurredAt = uuid.Nil, time.Time{}
		if err := w.Append(ctx, tx, e); err != nil {
			t.Fatal(err)
		}
	})
	byHand := testing.AllocsPerRun(200, func() {
		if err := insert(ctx, tx, e); err != nil {
			t.Fatal(err)
		}
	})
	if ours > byHand {
		t.Errorf("%v allocations an event, %v by hand", ours, byHand)
	}
}

func oneRowQuery(t *testing.T) string {
	t.Helper()
	tx := &recorder{}
	mustAppend(t, newWriter(t), tx, newEvent())
	return tx.statements[0].query
}

// discard is a Tx that keeps nothing.
type discard struct{ recorder }

func (*discard) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	return driver.RowsAffected(1), nil
}

func TestAppendEncodesHeadersAsJSON(t *testing.T) {
	headers := map[string]string{"\x01\"\\\n\x1f": "", "é": "\u2028<>&\x7f"}
	for i := range 20 {
		headers[strings.Repeat("h", i+1)] = strings.Repeat("\t", i)
	}
	e := newEvent()
	e.Headers = headers
	rows, err := newWriter(t).Prepare(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	if err := json.Unmarshal([]byte(rows[0].Headers), &got); err != nil || !maps.Equal(got, headers) {
		t.Errorf("headers %s, error %v", rows[0].Headers, err)
	}
	if again, _ := newWriter(t).Prepare(t.Context(), e); again[0].Headers != rows[0].Headers {
		t.Errorf("headers are once %s, once %s", rows[0].Headers, again[0].Headers)
	}
}

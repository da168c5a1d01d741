package pgxwriter_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/pgxwriter"
)

// recorder is a transaction without a database that records statements.
type recorder struct {
	pgx.Tx

	queries []string
	args    [][]any
	err     error
}

func (r *recorder) Exec(_ context.Context, query string, args ...any) (pgconn.CommandTag, error) {
	r.queries = append(r.queries, query)
	r.args = append(r.args, args)
	return pgconn.CommandTag{}, r.err
}

func newWriter(t *testing.T, opts ...writer.Option) *pgxwriter.Writer {
	t.Helper()
	w, err := pgxwriter.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func newEvents(n int) []*writer.Event {
	events := make([]*writer.Event, n)
	for i := range events {
		events[i] = &writer.Event{AggregateType: "Order", AggregateID: "o-1", Type: "OrderPlaced", Payload: []byte(`{}`)}
	}
	return events
}

// A type that does not implement pgx.Tx does not compile as an argument of Append.
func TestOnlyTransactionsImplementTx(t *testing.T) {
	tx := reflect.TypeFor[pgx.Tx]()
	if !reflect.TypeFor[*pgxpool.Tx]().Implements(tx) {
		t.Error("a transaction of a pool does not implement pgx.Tx")
	}
	for _, outside := range []reflect.Type{reflect.TypeFor[*pgx.Conn](), reflect.TypeFor[*pgxpool.Pool](), reflect.TypeFor[*pgxpool.Conn]()} {
		if outside.Implements(tx) {
			t.Errorf("%v implements pgx.Tx but is not a transaction", outside)
		}
	}
}

func TestAppendUsesNineStatements(t *testing.T) {
	w, texts := newWriter(t), map[string]bool{}
	for n := 1; n <= 200; n++ {
		tx := &recorder{}
		if err := w.Append(t.Context(), tx, newEvents(n)...); err != nil {
			t.Fatal(err)
		}
		if len(tx.queries) != 1 || !strings.HasPrefix(tx.queries[0], `INSERT INTO "outbox" (event_id, `) {
			t.Fatalf("%d events: statements %q", n, tx.queries)
		}
		texts[tx.queries[0]] = true
	}
	if len(texts) != 9 {
		t.Errorf("%d texts, want 9", len(texts))
	}
	tx := &recorder{}
	if err := w.Append(t.Context(), tx, newEvents(5000)...); err != nil || len(tx.queries) != 2 {
		t.Errorf("5000 events: error %v, %d statements, want 2", err, len(tx.queries))
	}
}

func TestAppendSendsUnusedColumnsAsNull(t *testing.T) {
	events := newEvents(9)
	events[1].TenantID, events[1].Headers = "acme", map[string]string{"a": "b"}
	events[2].ID = uuid.New() // not version 7: no created_at
	events[2].Payload, events[2].Tombstone = nil, true
	tx := &recorder{}
	if err := newWriter(t).Append(t.Context(), tx, events...); err != nil {
		t.Fatal(err)
	}
	args := tx.args[0]
	for i, want := range map[int]any{
		4:  []string{"", "acme", "", "", "", "", "", "", ""},
		5:  nil,
		6:  nil,
		8:  nil,
		9:  nil,
		10: []string{"", `{"a":"b"}`, "", "", "", "", "", "", ""},
		11: []byte("{}{}{}{}{}{}{}{}"),
		14: []int32{1, 3, 5, 5, 7, 9, 11, 13, 15},
		15: []int32{2, 2, -1, 2, 2, 2, 2, 2, 2},
	} {
		if !reflect.DeepEqual(args[i], want) {
			t.Errorf("argument $%d is %#v, want %#v", i+1, args[i], want)
		}
	}
	if created := args[13].([]*time.Time); created[0] == nil || created[1] == nil || created[2] != nil {
		t.Errorf("created_at %v", created)
	}
}

func TestAppendChecksBeforeItSends(t *testing.T) {
	for _, n := range []int{1, 3} {
		events := newEvents(n)
		events[n-1].Type = ""
		tx := &recorder{}
		err := newWriter(t).Append(t.Context(), tx, events...)
		var wrong *writer.EventError
		if !errors.As(err, &wrong) || wrong.Index != n-1 || wrong.Field != "Type" || !errors.Is(err, writer.ErrInvalidEvent) {
			t.Errorf("error %v", err)
		}
		if len(tx.queries) != 0 {
			t.Errorf("%d statements reached the database", len(tx.queries))
		}
	}
}

func TestAppendOfNothingDoesNothing(t *testing.T) {
	if err := newWriter(t).Append(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if err := newWriter(t).Append(t.Context(), nil, newEvents(1)...); err == nil || !strings.Contains(err.Error(), "transaction is nil") {
		t.Errorf("error %v", err)
	}
}

func TestAppendErrorsNameTheFix(t *testing.T) {
	refused := &pgconn.PgError{Code: "42P01", Message: `relation "outbox" does not exist`}
	for n, what := range map[int]string{1: "insert 1 event into", 2: "insert 2 events into"} {
		tx := &recorder{err: refused}
		err := newWriter(t).Append(t.Context(), tx, newEvents(n)...)
		if !errors.Is(err, refused) || !strings.HasPrefix(err.Error(), what) || !strings.Contains(err.Error(), "cdc-relay setup") {
			t.Errorf("error %v", err)
		}
	}
}

func TestNewTakesTheWritersOptions(t *testing.T) {
	if w, err := pgxwriter.New(writer.WithMaxPayload(0)); err == nil || w != nil {
		t.Errorf("writer %v, error %v", w, err)
	}
	tx := &recorder{}
	w := newWriter(t, writer.WithTable("app.events"))
	if err := w.Append(t.Context(), tx, newEvents(2)...); err != nil || !strings.HasPrefix(tx.queries[0], `INSERT INTO "app"."events" (`) {
		t.Errorf("error %v, queries %v", err, tx.queries)
	}
}

// placeOrder stores an order and the event about it, both or neither.
func placeOrder(ctx context.Context, pool *pgxpool.Pool, events *pgxwriter.Writer, id string, total int) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO orders (id, total) VALUES ($1, $2)`, id, total); err != nil {
			return err
		}
		event, err := writer.JSON("Order", id, "OrderPlaced", map[string]int{"total": total})
		if err != nil {
			return err
		}
		return events.Append(ctx, tx, event)
	})
}

func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://app@db.example.com/shop") // connects when it is used
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	events, err := pgxwriter.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := placeOrder(ctx, pool, events, "o-1", 1999); err != nil {
		fmt.Println(err)
	}
}

func ExampleWriter_Append() {
	events, _ := pgxwriter.New()
	paid, _ := writer.JSON("Order", "o-1", "OrderPaid", map[string]int{"total": 1999})
	sent, _ := writer.JSON("Order", "o-1", "OrderSent", map[string]string{"carrier": "post"})

	var tx recorder // a pgx.Tx: tx, err := pool.Begin(ctx)
	err := events.Append(context.Background(), &tx, paid, sent)
	fmt.Println("statements:", len(tx.queries), "error:", err)
	// Output: statements: 1 error: <nil>
}

// The function runs again after a deadlock, so it loads its aggregates.
func ExampleWriter_Run() {
	type Account struct {
		writer.Raised

		ID string
	}
	events, err := pgxwriter.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	deposit := func(ctx context.Context, pool *pgxpool.Pool, id string) error {
		return events.Run(ctx, pool, pgx.TxOptions{}, func(ctx context.Context, tx pgx.Tx, u *writer.Unit) error {
			a := &Account{ID: id} // load it
			u.Track(a)
			a.Raise(&writer.Event{AggregateType: "Account", AggregateID: a.ID, Type: "Deposited", Payload: []byte(`{}`)})
			_, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance + 1 WHERE id = $1", a.ID)
			return err // Run appends the event and commits
		})
	}
	_ = deposit
	u := writer.NewUnit() // with a transaction that something else began
	u.Add(&writer.Event{AggregateType: "Account", AggregateID: "a-1", Type: "Opened", Payload: []byte(`{}`)})
	fmt.Println(events.Flush(context.Background(), &recorder{}, u))
	// Output: <nil>
}

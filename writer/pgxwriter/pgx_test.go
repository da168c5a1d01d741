package pgxwriter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

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
	err     error
}

func (r *recorder) Exec(_ context.Context, query string, _ ...any) (pgconn.CommandTag, error) {
	r.queries = append(r.queries, query)
	return pgconn.CommandTag{}, r.err
}

func newWriter(t *testing.T) *writer.Writer {
	t.Helper()
	w, err := writer.New(writer.Postgres)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// A transaction that is nil or closed is an error that names the fix.
func TestTxWithoutATransaction(t *testing.T) {
	event := &writer.Event{AggregateType: "Order", AggregateID: "o-1", Type: "OrderPlaced", Payload: []byte(`{}`)}
	if err := newWriter(t).Append(t.Context(), pgxwriter.Tx(nil), event); !errors.Is(err, writer.ErrNoTransaction) {
		t.Errorf("error %v", err)
	}
	tx := &recorder{err: pgx.ErrTxClosed}
	err := newWriter(t).Append(t.Context(), pgxwriter.Tx(tx), event)
	if !errors.Is(err, pgx.ErrTxClosed) || !strings.Contains(err.Error(), "append before the transaction is committed") || len(tx.queries) != 1 {
		t.Errorf("error %v, statements %q", err, tx.queries)
	}
}

// placeOrder stores an order and the event about it, both or neither.
func placeOrder(ctx context.Context, db writer.DB[pgx.Tx], events *writer.Writer, id string, total int) error {
	event, err := writer.JSON("Order", id, "OrderPlaced", map[string]int{"total": total})
	if err != nil {
		return err
	}
	return writer.Run(ctx, db, events, func(ctx context.Context, tx pgx.Tx, u *writer.Unit) error {
		u.Add(event)
		_, err := tx.Exec(ctx, `INSERT INTO orders (id, total) VALUES ($1, $2)`, id, total)
		return err
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
	events, err := writer.New(writer.Postgres)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := placeOrder(ctx, pgxwriter.Pool(pool), events, "o-1", 1999); err != nil {
		fmt.Println(err)
	}
}

// In a transaction of your own, Append is one more statement.
func ExampleTx() {
	events, _ := writer.New(writer.Postgres)
	paid, _ := writer.JSON("Order", "o-1", "OrderPaid", map[string]int{"total": 1999})
	sent, _ := writer.JSON("Order", "o-1", "OrderSent", map[string]string{"carrier": "post"})

	var tx recorder // a pgx.Tx: tx, err := pool.Begin(ctx)
	err := events.Append(context.Background(), pgxwriter.Tx(&tx), paid, sent)
	fmt.Println("statements:", len(tx.queries), "error:", err)
	// Output: statements: 1 error: <nil>
}

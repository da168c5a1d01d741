package writer_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/writer"
)

type Order struct {
	ID    string `json:"id"`
	Total int    `json:"total"`
}

// placeOrder stores an order and the event about it, both or neither.
func placeOrder(ctx context.Context, db writer.DB[*sql.Tx], events *writer.Writer, o Order) error {
	event, err := writer.JSON("Order", o.ID, "OrderPlaced", o)
	if err != nil {
		return err
	}
	return writer.Run(ctx, db, events, func(ctx context.Context, tx *sql.Tx, u *writer.Unit) error {
		u.Add(event)
		_, err := tx.ExecContext(ctx, `INSERT INTO orders (id, total) VALUES ($1, $2)`, o.ID, o.Total)
		return err
	})
}

func Example() {
	pool := openShop() // sql.Open("pgx", dsn) or sql.Open("postgres", dsn)
	defer pool.Close()
	db := writer.SQL(pool, writer.Postgres)    // or writer.ORM, pgxwriter.Pool, gormwriter.DB
	events, err := writer.New(writer.Postgres) // both once, at start
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := placeOrder(context.Background(), db, events, Order{ID: "o-1", Total: 1999}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// BEGIN
	// INSERT INTO orders: o-1, 1999
	// INSERT INTO "outbox": Order, o-1, OrderPlaced, {"id":"o-1","total":1999}
	// COMMIT
}

// In a transaction of your own, Append is one more statement.
func ExampleWriter_Append() {
	place := func(ctx context.Context, db *sql.DB, events *writer.Writer, o Order) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // without effect once committed
		if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id, total) VALUES ($1, $2)`, o.ID, o.Total); err != nil {
			return err
		}
		event, err := writer.JSON("Order", o.ID, "OrderPlaced", o)
		if err != nil {
			return err
		}
		if err := events.Append(ctx, tx, event); err != nil {
			return err
		}
		return tx.Commit()
	}
	events, _ := writer.New(writer.Postgres)
	db := openShop()
	defer db.Close()
	fmt.Println(place(context.Background(), db, events, Order{ID: "o-1", Total: 1999}))
	// Output:
	// BEGIN
	// INSERT INTO orders: o-1, 1999
	// INSERT INTO "outbox": Order, o-1, OrderPlaced, {"id":"o-1","total":1999}
	// COMMIT
	// <nil>
}

// A retried transaction writes the same event, so that consumers recognise a repeat by its ID.
func ExampleWriter_Append_retry() {
	events, _ := writer.New(writer.Postgres)
	event, _ := writer.JSON("Order", "o-1", "OrderPlaced", Order{ID: "o-1", Total: 1999})

	var ids []uuid.UUID
	for range 2 {
		tx := &recorder{} // each attempt has its own transaction
		if err := events.Append(context.Background(), tx, event); err != nil {
			fmt.Println(err)
		}
		ids = append(ids, event.ID)
	}
	fmt.Println(ids[0].Version(), "and the same in both attempts:", ids[0] == ids[1])
	// Output: VERSION_7 and the same in both attempts: true
}

// An invalid event is reported before anything is sent, so the transaction can continue.
func ExampleEventError() {
	events, _ := writer.New(writer.Postgres)
	good := &writer.Event{AggregateType: "Order", AggregateID: "o-1", Type: "OrderPaid", Payload: []byte(`{}`)}
	bad := &writer.Event{AggregateType: "Order", AggregateID: "o-1", Type: "OrderPaid"}

	err := events.Append(context.Background(), &recorder{}, good, bad)
	var wrong *writer.EventError
	if errors.As(err, &wrong) {
		fmt.Println(wrong.Index, wrong.Field)
	}
	fmt.Println(err)
	// Output:
	// 1 Payload
	// event 1: Payload is nil: set it, or set Tombstone for a record with a null value
}

// An event with binary payload and all optional fields.
func ExampleEvent() {
	events, _ := writer.New(writer.Postgres, writer.WithTable("billing.outbox"))
	err := events.Append(context.Background(), &recorder{}, &writer.Event{
		AggregateType: "Invoice",
		AggregateID:   "i-7",
		Type:          "InvoicePaid",
		TenantID:      "acme",
		PartitionKey:  "customer-3", // instead of AggregateID
		ContentType:   "application/protobuf",
		SchemaID:      "billing.InvoicePaid",
		SchemaVersion: 2,
		OccurredAt:    time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		Headers:       map[string]string{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		Payload:       []byte{0x0a, 0x03, 'i', '-', '7'}, // or Tombstone, which deletes the key from a compacted topic
	})
	fmt.Println(err)
	// Output: <nil>
}

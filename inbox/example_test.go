package inbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/writer"
)

type order struct{ Total int64 }

// A registry chooses the handler by the message's types, and the inbox runs it in the transaction that records the message.
func Example() {
	var db *sql.DB // the consumer's database
	ctx := context.Background()
	in, err := inbox.New(inbox.SQL(db, writer.Postgres), "revenue")
	if err != nil {
		panic(err)
	}
	var handlers inbox.Registry[*sql.Tx]
	err = inbox.OnJSON(&handlers, "Order", "OrderPlaced", func(ctx context.Context, tx *sql.Tx, _ *inbox.Message, o order) error {
		_, err := tx.ExecContext(ctx, "UPDATE revenue SET total = total + $1", o.Total)
		return err
	})
	if err != nil {
		panic(err)
	}
	handle := func(m *inbox.Message) error {
		_, err := in.Handle(ctx, m, func(ctx context.Context, tx *sql.Tx) error { return handlers.Handle(ctx, tx, m) })
		return err
	}
	fmt.Println(handle(&inbox.Message{Topic: "orders", Source: "/orders/public.outbox"}))
	// Output: record orders[0]@0: ID is empty: set it; records of cdc-relay have the headers ce_source and ce_id
}

// In a transaction of the caller's own, Once tells whether there is work to do.
func ExampleInbox_Once() {
	once := func(ctx context.Context, in *inbox.Inbox[*sql.Tx], tx *sql.Tx, m *inbox.Message) error {
		first, err := in.Once(ctx, tx, m)
		if err != nil || !first {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE revenue SET orders = orders + 1")
		return err // if it is not nil, the caller rolls back
	}
	_ = once
}

// Old records go in batches, so that no transaction is long.
func ExampleInbox_Purge() {
	purge := func(ctx context.Context, in *inbox.Inbox[*sql.Tx]) error {
		_, err := in.Purge(ctx, time.Now().AddDate(0, 0, -30), 1000)
		return err
	}
	_ = purge
}

// Forget lets a replay of messages be handled again, after their handler was repaired.
func ExampleInbox_Forget() {
	again := func(ctx context.Context, db *sql.DB, in *inbox.Inbox[*sql.Tx]) error {
		return inbox.Transact(ctx, inbox.SQL(db, writer.MySQL), func(ctx context.Context, tx *sql.Tx) error {
			_, err := in.Forget(ctx, tx, inbox.MessageID{Source: "/orders/outbox", ID: "39026140-f6f2-4fb3-99f1-74208e7d7a9b"})
			return err
		})
	}
	_ = again
}

// A message goes to the handler of its pair of types, else of its event type, else of its aggregate type, else to the
// default.
func ExampleRegistry() {
	var handlers inbox.Registry[*sql.Tx]
	say := func(what string) inbox.Handler[*sql.Tx] {
		return func(context.Context, *sql.Tx, *inbox.Message) error {
			fmt.Println(what)
			return nil
		}
	}
	_ = handlers.On("Order", "Deleted", inbox.All(say("order deleted"), say("cancel shipment")))
	_ = handlers.On("", "Deleted", say("something deleted"))
	_ = handlers.Ignore("Order", "")
	handlers.Default(say("default"))
	handlers.Use(func(next inbox.Handler[*sql.Tx]) inbox.Handler[*sql.Tx] {
		return func(ctx context.Context, tx *sql.Tx, m *inbox.Message) error {
			fmt.Print(m.AggregateType, " ", m.Type, ": ")
			return next(ctx, tx, m)
		}
	})
	for _, m := range []*inbox.Message{{AggregateType: "Order", Type: "Deleted"}, {AggregateType: "Cart", Type: "Deleted"}, {AggregateType: "Cart", Type: "Filled"}} {
		_ = handlers.Handle(context.Background(), nil, m)
	}
	// Output:
	// Order Deleted: order deleted
	// cancel shipment
	// Cart Deleted: something deleted
	// Cart Filled: default
}

// The lanes of a partition take messages until they are full; their workers are those of all partitions.
func ExampleLanes() {
	ctx := context.Background()
	lanes := inbox.NewLanes(ctx, inbox.LanesConfig{
		Workers: inbox.NewWorkers(8),
		Handle: func(_ context.Context, m *inbox.Message) time.Duration {
			fmt.Println(string(m.Key), m.Offset)
			return 0 // finished; time.Second would handle it again in a second
		},
	})
	if !lanes.Offer(&inbox.Message{Key: []byte("order 1"), Offset: 41}) {
		fmt.Println("full: pause the partition")
	}
	done := make(chan struct{})
	lanes.Do([]byte("order 1"), func(context.Context) time.Duration { // behind the message
		close(done)
		return 0
	})
	<-done
	if err := lanes.Stop(ctx); err != nil {
		panic(err)
	}
	fmt.Println("commit", lanes.Next())
	// Output:
	// order 1 41
	// commit 42
}

// An operator lists what is parked, has it handled again after a handler was repaired, and drops the rest.
func ExampleParking() {
	repaired := func(ctx context.Context, in *inbox.Inbox[*sql.Tx]) error {
		parking, err := inbox.NewParking(in)
		if err != nil {
			return err
		}
		for row, err := range parking.List(ctx, inbox.Filter{Error: "out of stock"}) {
			if err != nil {
				return err
			}
			fmt.Println(row.ID, row.Message.Attempt, row.Error)
		}
		if _, err := parking.Retry(ctx, inbox.Filter{Type: "OrderPlaced"}); err != nil {
			return err
		}
		_, err = parking.Drop(ctx, inbox.Filter{Before: time.Now().AddDate(0, 0, -30)})
		return err
	}
	_ = repaired
}

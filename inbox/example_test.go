package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"expvar"
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
	in, err := inbox.New(writer.SQL(db, writer.Postgres), "revenue")
	if err != nil {
		panic(err)
	}
	var handlers inbox.Registry[*sql.Tx]
	err = inbox.OnJSON(&handlers, "Order", "OrderPlaced", func(ctx context.Context, tx *sql.Tx, _ *writer.Unit, _ *inbox.Message, o order) error {
		_, err := tx.ExecContext(ctx, "UPDATE revenue SET total = total + $1", o.Total)
		return err
	})
	if err != nil {
		panic(err)
	}
	handle := func(m *inbox.Message) error {
		_, err := in.Handle(ctx, m, func(ctx context.Context, tx *sql.Tx, u *writer.Unit) error { return handlers.Handle(ctx, tx, u, m) })
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

// Old rows are deleted in batches, so that no transaction is long.
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
		return inbox.Transact(ctx, writer.SQL(db, writer.MySQL), func(ctx context.Context, tx *sql.Tx) error {
			_, err := in.Forget(ctx, tx, inbox.MessageID{Source: "/orders/public.outbox", ID: "39026140-f6f2-4fb3-99f1-74208e7d7a9b"})
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
		return func(context.Context, *sql.Tx, *writer.Unit, *inbox.Message) error {
			fmt.Println(what)
			return nil
		}
	}
	_ = handlers.On("Order", "Deleted", inbox.All(say("order deleted"), say("cancel shipment")))
	_ = handlers.On("", "Deleted", say("something deleted"))
	_ = handlers.On("Order", "", say("another one of an order"))
	handlers.Default(say("default"))
	handlers.Use(func(next inbox.Handler[*sql.Tx]) inbox.Handler[*sql.Tx] {
		return func(ctx context.Context, tx *sql.Tx, u *writer.Unit, m *inbox.Message) error {
			fmt.Print(m.AggregateType, " ", m.Type, ": ")
			return next(ctx, tx, u, m)
		}
	})
	for _, m := range []*inbox.Message{{AggregateType: "Order", Type: "Deleted"}, {AggregateType: "Cart", Type: "Deleted"}, {AggregateType: "Cart", Type: "Filled"}} {
		_ = handlers.Handle(context.Background(), nil, nil, m)
	}
	// Output:
	// Order Deleted: order deleted
	// cancel shipment
	// Cart Deleted: something deleted
	// Cart Filled: default
}

// HandleBatch pays for one commit, however many messages it records. If it fails, each gets a transaction of its own.
func ExampleInbox_HandleBatch() {
	handle := func(ctx context.Context, tx *sql.Tx, _ *writer.Unit, ms []*inbox.Message) error {
		_, err := tx.ExecContext(ctx, "UPDATE revenue SET orders = orders + $1", len(ms))
		return err
	}
	batch := func(ctx context.Context, in *inbox.Inbox[*sql.Tx], polled []*inbox.Message) error {
		if _, err := in.HandleBatch(ctx, polled, handle); err == nil {
			return nil
		}
		for i, m := range polled {
			_, err := in.Handle(ctx, m, func(ctx context.Context, tx *sql.Tx, u *writer.Unit) error { return handle(ctx, tx, u, polled[i:i+1]) })
			if err != nil {
				return fmt.Errorf("offset %d: %w", m.Offset, err)
			}
		}
		return nil
	}
	_ = batch
}

// Consumers that are not kgoinbox fill a Message from their client's record.
func ExampleMessage_ReadCloudEvents() {
	m := &inbox.Message{Topic: "orders", Offset: 7, Headers: []inbox.Header{
		{Key: "ce_source", Value: []byte("/orders/public.outbox")}, {Key: "ce_id", Value: []byte("019aa6a0-7b7c-7cc0-8000-2c7d3b0f9a41")}, {Key: "ce_type", Value: []byte("OrderPlaced")},
	}}
	if err := m.ReadCloudEvents(); err != nil {
		panic(err)
	}
	fmt.Println(m.Source, m.ID, m.Type)
	// Output: /orders/public.outbox 019aa6a0-7b7c-7cc0-8000-2c7d3b0f9a41 OrderPlaced
}

// A handler says that another attempt will not help: a consumer parks the message at once.
func ExamplePermanent() {
	err := inbox.Permanent(errors.New("order o-1 has an unknown currency"))
	fmt.Println(err, inbox.IsPermanent(err), inbox.IsPermanent(context.DeadlineExceeded))
	// Output: order o-1 has an unknown currency true false
}

// A handler sets the pause before the next attempt, for example to what a service asked for.
func ExampleRetryAfter() {
	err := fmt.Errorf("the carrier is busy: %w", inbox.RetryAfter(time.Minute))
	fmt.Println(err)
	// Output: the carrier is busy: try again in 1m0s
}

// carrier gives a message's headers to a propagator: it is a propagation.TextMapCarrier of OpenTelemetry.
type carrier struct{ *inbox.Message }

func (c carrier) Get(key string) string {
	value, _ := c.Header(key)
	return string(value)
}

func (carrier) Set(string, string) {}

func (carrier) Keys() []string { return nil }

// Trace context: the producer's traceparent is a header of the record. With OpenTelemetry extract is
// otel.GetTextMapPropagator().Extract, and the interceptor starts a span.
func ExampleRegistry_Use_traces() {
	extract := func(ctx context.Context, c carrier) context.Context {
		fmt.Println("goes on with", c.Get("traceparent"))
		return ctx
	}
	var handlers inbox.Registry[*sql.Tx]
	handlers.Default(func(context.Context, *sql.Tx, *writer.Unit, *inbox.Message) error { return nil })
	handlers.Use(func(next inbox.Handler[*sql.Tx]) inbox.Handler[*sql.Tx] {
		return func(ctx context.Context, tx *sql.Tx, u *writer.Unit, m *inbox.Message) error {
			return next(extract(ctx, carrier{m}), tx, u, m)
		}
	})
	m := &inbox.Message{Headers: []inbox.Header{{Key: "traceparent", Value: []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")}}}
	_ = handlers.Handle(context.Background(), nil, nil, m)
	// Output: goes on with 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
}

// Metrics of handlers, here with expvar. The observer of kgoinbox sees repeats and parked messages, too.
func ExampleRegistry_Use_metrics() {
	var failures, seconds expvar.Map
	var handlers inbox.Registry[*sql.Tx]
	handlers.Default(func(context.Context, *sql.Tx, *writer.Unit, *inbox.Message) error { return errors.New("out of stock") })
	handlers.Use(func(next inbox.Handler[*sql.Tx]) inbox.Handler[*sql.Tx] {
		return func(ctx context.Context, tx *sql.Tx, u *writer.Unit, m *inbox.Message) error {
			begun := time.Now()
			err := next(ctx, tx, u, m)
			seconds.AddFloat(m.Type, time.Since(begun).Seconds())
			if err != nil {
				failures.Add(m.Type, 1)
			}
			return err
		}
	})
	_ = handlers.Handle(context.Background(), nil, nil, &inbox.Message{Type: "OrderPlaced"})
	fmt.Println(failures.String())
	// Output: {"OrderPlaced": 1}
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/lanes"
	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/pgxwriter"
)

const (
	workers  = 8
	attempts = 5
)

// consumer is the handler of the group.
type consumer struct {
	inbox    *inbox.Inbox[pgx.Tx]
	handlers inbox.Registry[pgx.Tx]
	workers  lanes.Workers // of all partitions
	stop     context.CancelCauseFunc
	log      *slog.Logger
}

type order struct {
	Total int64 `json:"total"`
}

func newConsumer(ctx context.Context, pool *pgxpool.Pool, stop context.CancelCauseFunc) (*consumer, error) {
	const revenue = `CREATE TABLE IF NOT EXISTS revenue (customer text PRIMARY KEY, orders bigint NOT NULL, total bigint NOT NULL)`
	if _, err := pool.Exec(ctx, revenue); err != nil {
		return nil, fmt.Errorf("create table: %w", err)
	}
	letters, err := writer.New(writer.Postgres)
	if err != nil {
		return nil, err
	}
	in, err := inbox.New(pgxwriter.Pool(pool), "revenue", inbox.WithWriter(letters))
	if err != nil {
		return nil, err
	}
	if err := in.Check(ctx); err != nil {
		return nil, err
	}
	c := &consumer{inbox: in, workers: lanes.NewWorkers(workers), stop: stop, log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	c.handlers.Default(func(context.Context, pgx.Tx, *writer.Unit, *inbox.Message) error { return nil }) // other events are none of its business
	return c, inbox.OnJSON(&c.handlers, "", "OrderPlaced", add)
}

// add is the consumer's business logic.
func add(ctx context.Context, tx pgx.Tx, _ *writer.Unit, m *inbox.Message, o order) error {
	if o.Total < 0 {
		return inbox.Permanent(fmt.Errorf("the total is negative: %d", o.Total))
	}
	_, err := tx.Exec(ctx, `INSERT INTO revenue VALUES ($1, 1, $2)
		ON CONFLICT (customer) DO UPDATE SET orders = revenue.orders + 1, total = revenue.total + $2`, string(m.Key), o.Total)
	return err
}

// handle is a lane's task: it returns 0 when the message is done, or when to try again.
func (c *consumer) handle(ctx context.Context, m *inbox.Message) (again time.Duration) {
	_, err := c.inbox.Handle(ctx, m, func(ctx context.Context, tx pgx.Tx, u *writer.Unit) error { return c.handlers.Handle(ctx, tx, u, m) })
	if err != nil && !errors.Is(err, inbox.ErrDatabase) && ctx.Err() == nil { // otherwise it is no attempt
		if m.Attempt++; m.Attempt >= attempts || inbox.IsPermanent(err) {
			err = c.giveUp(ctx, m, err)
		}
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, inbox.ErrInvalidMessage): // it cannot be recorded, and to skip it would be to lose it
		c.stop(err)
	}
	c.log.Warn("handle record", "partition", m.Partition, "offset", m.Offset, "attempt", m.Attempt, "error", err)
	return 100 * time.Millisecond << min(m.Attempt, attempts)
}

// giveUp appends a dead letter in the transaction that records the message as handled. Later messages of its key go on before somebody has
// looked at it: to keep their order, park it (package parking of the inbox).
func (c *consumer) giveUp(ctx context.Context, m *inbox.Message, cause error) error {
	_, err := c.inbox.Handle(ctx, m, func(_ context.Context, _ pgx.Tx, u *writer.Unit) error {
		u.Add(letter(m, cause))
		return nil
	})
	return err
}

// letter is the dead letter of a message: an event like any other, which a relay publishes to its topic.
func letter(m *inbox.Message, cause error) *writer.Event {
	return &writer.Event{
		AggregateType: "DeadLetter", AggregateID: cmp.Or(string(m.Key), m.ID), Type: "revenue.failed", Topic: "revenue.dead-letters",
		Payload: m.Value, Tombstone: m.Value == nil,
		Headers: map[string]string{"error": cause.Error(), "source": m.Source, "id": m.ID, "type": m.Type},
	}
}

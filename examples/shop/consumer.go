package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/kgoinbox"
	"github.com/cdc-relay/cdc-relay/writer"
)

// openInbox returns the inbox of the stock: each event takes effect once, although it may be delivered more than once.
func openInbox(db database) (*inbox.Inbox[*sql.Tx], error) {
	return inbox.New(db.transactions, "stock")
}

// consume reserves items for the events of orders until ctx ends.
func consume(ctx context.Context, db database, in *inbox.Inbox[*sql.Tx], client ...kgo.Opt) error {
	var handlers inbox.Registry[*sql.Tx]
	err := errors.Join(
		inbox.OnJSON(&handlers, aggregateOrder, orderPlaced, db.reserves(1)),
		inbox.OnJSON(&handlers, aggregateOrder, orderCancelled, db.reserves(-1)))
	if err != nil {
		return err
	}
	c, err := kgoinbox.New(in, &handlers, kgoinbox.Config{Client: client})
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// reserves returns a handler, which is called in the transaction that records the message in the inbox. It parks the message of an unknown
// item at once: another attempt cannot help before somebody has added the item.
func (db database) reserves(times int) func(context.Context, *sql.Tx, *writer.Unit, *inbox.Message, order) error {
	return func(ctx context.Context, tx *sql.Tx, _ *writer.Unit, _ *inbox.Message, o order) error {
		known, err := db.reserve(ctx, tx, o.Item, times*o.Quantity)
		if err == nil && !known {
			err = inbox.Permanent(fmt.Errorf("the stock has no item %q: insert it, then retry", o.Item))
		}
		return err
	}
}

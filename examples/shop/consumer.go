package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/kgoinbox"
	"github.com/cdc-relay/cdc-relay/inbox/parking"
)

// stock reserves items for orders: each event takes effect once, although it may be delivered more than once.
type stock struct {
	db      database
	in      *inbox.Inbox[*sql.Tx]
	parking *parking.Parking[*sql.Tx]
}

func openStock(db database) (*stock, error) {
	in, err := inbox.New(db.transactions, "stock")
	if err != nil {
		return nil, err
	}
	parked, err := parking.New(in)
	return &stock{db, in, parked}, err
}

// consume handles events until ctx ends.
func (s *stock) consume(ctx context.Context, brokers []string, topic, instance string) error {
	var handlers inbox.Registry[*sql.Tx]
	c, err := kgoinbox.New(s.in, &handlers, kgoinbox.Config{
		Client: []kgo.Opt{
			kgo.SeedBrokers(brokers...), kgo.ConsumerGroup("stock." + topic), kgo.ConsumeTopics(topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.InstanceID(instance), // restarted, the process takes its place in the group back at once
		},
		RetryInterval: time.Second,
	})
	err = errors.Join(err,
		inbox.OnJSON(&handlers, string(aggregateOrder), string(orderPlaced), s.placed),
		inbox.OnJSON(&handlers, string(aggregateOrder), string(orderCancelled), s.cancelled))
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// placed is called in the transaction that records the message in the inbox.
func (s *stock) placed(ctx context.Context, tx *sql.Tx, _ *inbox.Message, o order) error {
	return s.reserve(ctx, tx, o.Item, o.Quantity)
}

func (s *stock) cancelled(ctx context.Context, tx *sql.Tx, _ *inbox.Message, o order) error {
	return s.reserve(ctx, tx, o.Item, -o.Quantity)
}

// reserve parks the message of an unknown item at once: another attempt cannot help before somebody has added the item.
func (s *stock) reserve(ctx context.Context, tx *sql.Tx, item string, pieces int) error {
	known, err := s.db.reserve(ctx, tx, item, pieces)
	if err == nil && !known {
		err = inbox.Permanent(fmt.Errorf("the stock has no item %q: insert it, then retry", item))
	}
	return err
}

// listParked prints the parked messages.
func (s *stock) listParked(ctx context.Context) error {
	for p, err := range s.parking.List(ctx, parking.Filter{}) {
		if err != nil {
			return err
		}
		fmt.Printf("%s of order %s: %s\n", p.Message.Type, p.Message.Key, cmp.Or(p.Error, "waits for another one of its order"))
	}
	return nil
}

// retryParked asks the consumer to handle the parked messages again.
func (s *stock) retryParked(ctx context.Context) error {
	n, err := s.parking.Retry(ctx, parking.Filter{})
	if err == nil {
		fmt.Printf("%d parked messages will be handled again\n", n)
	}
	return err
}

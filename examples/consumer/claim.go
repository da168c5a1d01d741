package main

import (
	"context"
	"time"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/lanes"
)

// drain is how long handlers may take to end when a partition is given up. It is below Config.Consumer.Group.Rebalance.Timeout.
const drain = 20 * time.Second

// Setup has nothing to do.
func (*consumer) Setup(sarama.ConsumerGroupSession) error { return nil }

// Cleanup has nothing to do.
func (*consumer) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim consumes a partition until the group changes, and then waits for its handlers. It marks the offset before the first unfinished
// message; sarama commits what is marked, regularly and at the end of the session.
func (c *consumer) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	handlers := context.WithoutCancel(session.Context()) // they may end after the session has
	finished := make(chan struct{}, 1)
	lanes := lanes.New(handlers, lanes.Config{
		Workers: c.workers, Handle: c.handle,
		Finished: func() {
			select {
			case finished <- struct{}{}:
			default:
			}
		},
	})
	mark := func() { session.MarkOffset(claim.Topic(), claim.Partition(), lanes.Next(), "") }
	c.feed(session.Context(), lanes, claim.Messages(), finished, mark)
	c.log.Info("give up partition: wait for its handlers", "partition", claim.Partition())
	limit, cancel := context.WithTimeout(handlers, drain)
	defer cancel()
	err := lanes.Stop(limit)
	if err != nil {
		c.log.Warn("what handlers did not finish is handled again", "partition", claim.Partition(), "error", err)
	}
	mark()
	return err
}

// feed gives records to the lanes until the session ends. While the lanes are full it takes no record, and sarama fetches none.
//
// With sarama's cooperative strategy the session goes on when a partition is given up, and only the channel of records is closed: feed would
// see that late if the lanes are full.
func (c *consumer) feed(session context.Context, lanes *lanes.Lanes, records <-chan *sarama.ConsumerMessage, finished <-chan struct{}, mark func()) {
	var waiting *inbox.Message
	for {
		next := records
		if waiting != nil {
			next = nil
		}
		select {
		case r, ok := <-next:
			if !ok {
				return
			}
			m, err := message(r)
			if err != nil { // to skip it would be to lose it
				c.stop(err)
				return
			}
			waiting = m
		case <-finished:
			mark()
		case <-session.Done():
			return
		}
		if waiting != nil && lanes.Offer(waiting) {
			waiting = nil
		}
	}
}

// message returns the record as a message.
func message(r *sarama.ConsumerMessage) (*inbox.Message, error) {
	m := &inbox.Message{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, inbox.Header{Key: string(h.Key), Value: h.Value})
	}
	err := m.ReadCloudEvents()
	return m, err
}

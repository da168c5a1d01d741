package kgoinbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/kgoinbox"
	"github.com/cdc-relay/cdc-relay/inbox/parking"
)

// counter counts outcomes, as one with metrics of a library would.
type counter map[kgoinbox.Outcome]int

func (c counter) Handled(_ *inbox.Message, o kgoinbox.Outcome, _ time.Duration, _ error) { c[o]++ }

func (counter) InFlight(string, int32, int) {}

// Run consumes until its context ends, which signal.NotifyContext does at SIGTERM.
func ExampleConsumer_Run() {
	run := func(ctx context.Context, in *inbox.Inbox[*sql.Tx], handlers inbox.Registry[*sql.Tx]) error {
		consumer, err := kgoinbox.New(in, &handlers, kgoinbox.Config{Client: []kgo.Opt{
			kgo.SeedBrokers("localhost:9092"), kgo.ConsumerGroup("revenue"), kgo.ConsumeTopics("orders"),
		}})
		if err != nil {
			return err
		}
		return consumer.Run(ctx)
	}
	_ = run
}

// An observer must be safe for concurrent use; this one is not, and shows what it sees only.
func ExampleObserver() {
	var o kgoinbox.Observer = counter{}
	o.Handled(&inbox.Message{ID: "1"}, kgoinbox.Parked, time.Second, nil)
	fmt.Println(o)
	// Output: map[parked:1]
}

// The parking of a consumer lists, retries and drops.
func ExampleConsumer_Parking() {
	retry := func(ctx context.Context, c *kgoinbox.Consumer[*sql.Tx]) (int64, error) {
		return c.Parking().Retry(ctx, parking.Filter{Type: "OrderPlaced"})
	}
	_ = retry
}

package lanes_test

import (
	"context"
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/lanes"
)

// The lanes of a partition take messages until they are full; their workers are those of all partitions.
func Example() {
	ctx := context.Background()
	l := lanes.New(ctx, lanes.Config{
		Workers: lanes.NewWorkers(8),
		Handle: func(_ context.Context, m *inbox.Message) time.Duration {
			fmt.Println(string(m.Key), m.Offset)
			return 0 // finished; time.Second would handle it again in a second
		},
	})
	if !l.Offer(&inbox.Message{Key: []byte("order 1"), Offset: 41}) {
		fmt.Println("full: pause the partition")
	}
	done := make(chan struct{})
	l.Do([]byte("order 1"), func(context.Context) time.Duration { // behind the message
		close(done)
		return 0
	})
	<-done
	if err := l.Stop(ctx); err != nil {
		panic(err)
	}
	fmt.Println("commit", l.Next())
	// Output:
	// order 1 41
	// commit 42
}

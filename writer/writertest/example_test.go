package writertest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/writertest"
)

// pay is the code under test.
func pay(ctx context.Context, tx writer.Tx, events *writer.Writer, id string) error {
	event, err := writer.JSON("Order", id, "OrderPaid", map[string]string{"id": id})
	if err != nil {
		return err
	}
	return events.Append(ctx, tx, event)
}

// A test with a database passes writertest.SQL(tx) or writertest.Pgx(tx) in place of the recorder. A failed check ends the
// test, as t.Fatal does.
func Example() {
	t := &failing{TB: new(testing.T)} // the test's own t
	var recorder writertest.Recorder
	events, err := writer.New(writer.Postgres, recorder.Option())
	if err != nil {
		t.Fatalf("%v", err)
	}
	fmt.Println(pay(context.Background(), recorder.Tx(), events, "o-1"))
	event := writertest.RequireAppended(t, events, &recorder, writertest.Match{Type: "OrderPaid", Payload: `{"id": "o-1"}`})
	fmt.Println(event.AggregateID)
	writertest.RequireAppendedInOrder(t, events, &recorder, writertest.Match{Type: "OrderPaid"})
	writertest.RequireNotAppended(t, events, &recorder, writertest.Match{Type: "OrderRefused"})
	// Output:
	// <nil>
	// o-1
}

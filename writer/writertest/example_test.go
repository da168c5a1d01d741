package writertest_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/writertest"
)

// Orders is the service under test.
type Orders struct {
	db     writer.DB[*sql.Tx]
	events *writer.Writer
}

func (o *Orders) Pay(ctx context.Context, id string) error {
	return writer.Run(ctx, o.db, o.events, func(ctx context.Context, tx *sql.Tx, u *writer.Unit) error {
		event, err := writer.JSON("Order", id, "OrderPaid", map[string]string{"id": id})
		if err != nil {
			return err
		}
		u.Add(event)
		_, err = tx.ExecContext(ctx, "UPDATE orders SET paid = true WHERE id = $1", id)
		return err
	})
}

// A service is tested without a database: its transactions are the recorder's. A failed check ends the test, as t.Fatal does.
func Example() {
	t := &failing{TB: new(testing.T)} // the test's own t
	var recorder writertest.Recorder
	events, err := writer.New(writer.Postgres, recorder.Option())
	if err != nil {
		t.Fatalf("%v", err)
	}
	orders := Orders{writer.SQL(recorder.DB(t), writer.Postgres), events}
	fmt.Println(orders.Pay(context.Background(), "o-1"))
	event := writertest.RequireAppended(t, events, &recorder, writertest.Match{Type: "OrderPaid", Payload: `{"id": "o-1"}`})
	fmt.Println(event.AggregateID)
	writertest.RequireAppendedInOrder(t, events, &recorder, writertest.Match{Type: "OrderPaid"})
	writertest.RequireNotAppended(t, events, &recorder, writertest.Match{Type: "OrderRefused"})
	// Output:
	// <nil>
	// o-1
}

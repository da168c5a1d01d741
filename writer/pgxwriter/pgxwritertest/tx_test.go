package pgxwritertest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/pgxwriter"
	"github.com/cdc-relay/cdc-relay/writer/pgxwriter/pgxwritertest"
	"github.com/cdc-relay/cdc-relay/writer/writertest"
)

// pay is code under test.
func pay(ctx context.Context, tx pgx.Tx, events *writer.Writer, id string) error {
	event, err := writer.JSON("Order", id, "OrderPaid", map[string]string{"id": id})
	if err != nil {
		return err
	}
	return events.Append(ctx, pgxwriter.Tx(tx), event)
}

// Code that runs transactions of pgx runs without a database.
func ExampleDB() {
	var recorder writertest.Recorder // check it with writertest.RequireAppended(t, events, &recorder, ...)
	events, err := writer.New(writer.Postgres, recorder.Option())
	if err != nil {
		fmt.Println(err)
		return
	}
	err = writer.Run(context.Background(), pgxwritertest.DB(&recorder), events, func(ctx context.Context, tx pgx.Tx, _ *writer.Unit) error {
		return pay(ctx, tx, events, "o-1")
	})
	fmt.Println(err)
	// Output: <nil>
}

func TestTx(t *testing.T) {
	var recorder writertest.Recorder
	events, err := writer.New(writer.Postgres, recorder.Option())
	if err != nil {
		t.Fatal(err)
	}
	kept := pgxwritertest.Tx(&recorder)
	if err := errors.Join(pay(t.Context(), kept, events, "o-1"), kept.Commit(t.Context())); err != nil {
		t.Fatal(err)
	}
	undone, later := pgxwritertest.Tx(&recorder), pgxwritertest.Tx(&recorder)
	err = errors.Join(pay(t.Context(), undone, events, "o-2"), pay(t.Context(), later, events, "o-3"), undone.Rollback(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	writertest.RequireAppended(t, events, &recorder, writertest.Match{AggregateID: "o-3"})
	writertest.RequireAppended(t, events, &recorder, writertest.Match{AggregateID: "o-1", Payload: `{"id":"o-1"}`})
	writertest.RequireNotAppended(t, events, &recorder, writertest.Match{AggregateID: "o-2"})
	if err := kept.Rollback(t.Context()); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("error %v", err)
	}
	tag, err := later.Exec(t.Context(), "UPDATE orders SET paid = true")
	_, savepoint := later.Begin(t.Context())
	if row := later.QueryRow(t.Context(), "SELECT 1").Scan(); err != nil || tag.RowsAffected() != 1 || savepoint == nil || !errors.Is(row, pgx.ErrNoRows) {
		t.Errorf("%d changed rows, %v, %v, %v", tag.RowsAffected(), err, savepoint, row)
	}
	refused := errors.New("refused")
	recorder.Answer = func(statement string) (int64, error) {
		if statement == "refuse" {
			return 0, refused
		}
		return 0, nil
	}
	tag, err = later.Exec(t.Context(), "UPDATE orders SET paid = true")
	if _, fails := later.Exec(t.Context(), "refuse"); err != nil || tag.RowsAffected() != 0 || !errors.Is(fails, refused) || errors.Is(fails, pgx.ErrTxClosed) {
		t.Errorf("%d changed rows, %v, %v", tag.RowsAffected(), err, fails)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pgxwritertest.Tx(&recorder).Exec(ended, ""); !errors.Is(err, context.Canceled) || errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("error %v", err)
	}
}

package writer_test

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/writertest"
)

func TestWritertest(t *testing.T) { onEach(t, readsWhatWasAppended) }

// The checks read each field by every driver, in the transaction and after its rollback.
func readsWhatWasAppended(t *testing.T, e engine) {
	t.Helper()
	db := newDatabase(t, e, daily("outbox"))
	for _, w := range e.ways() {
		t.Run(w.name, func(t *testing.T) {
			tx, events := w.open(t, db.name, "").begin(t), append(awkwardEvents(), newEvent(101), newEvent(102), newEvent(103))
			testenv.Must(t, tx.Append(t.Context(), events...))
			table, reader := tx.look()
			var matches []writertest.Match
			for _, event := range events {
				m := writertest.Match{
					Type: event.Type, AggregateType: event.AggregateType, AggregateID: event.AggregateID, TenantID: event.TenantID,
					Topic: event.Topic, Key: event.PartitionKey, Headers: event.Headers,
				}
				if event.Payload != nil {
					m.Payload = event.Payload
				}
				got := writertest.RequireAppended(t, table, reader, m)
				if got.ID != event.ID || got.SchemaID != event.SchemaID || got.SchemaVersion != event.SchemaVersion || got.Tombstone != event.Tombstone ||
					got.OccurredAt.UnixMicro() != event.OccurredAt.UnixMicro() {
					t.Errorf("event %+v, want %+v", got, event)
				}
				matches = append(matches, m)
			}
			writertest.RequireAppendedInOrder(t, table, reader, matches[len(matches)-3:]...) // those with IDs of Append
			testenv.Must(t, tx.Rollback(t.Context()))
			tx = w.open(t, db.name, "").begin(t)
			table, reader = tx.look()
			writertest.RequireNotAppended(t, table, reader, writertest.Match{})
			testenv.Must(t, tx.Rollback(t.Context()))
		})
	}
}

func (t sqlTx) look() (*writer.Writer, writertest.Reader) { return t.events, writertest.SQL(t.tx) }

func (t pgxTx) look() (*writer.Writer, writertest.Reader) { return t.events, writertest.Pgx(t.Tx) }

// JSON in a column of jsonb is compared as a value.
func TestWritertestReadsJSON(t *testing.T) {
	db := newDatabase(t, pg)
	options := plain("outbox")
	options.Payload = "jsonb"
	db.addTables(t, options)
	for _, w := range pg.ways() {
		tx := w.open(t, db.name, "", writer.WithPayloadColumn(writer.PayloadJSONB)).begin(t)
		testenv.Must(t, tx.Append(t.Context(), &writer.Event{AggregateType: "Order", AggregateID: "o-1", Type: "Placed", Payload: []byte(`{"b":1,  "a":[2]}`)}))
		table, reader := tx.look()
		writertest.RequireAppended(t, table, reader, writertest.Match{Payload: `{"a": [2], "b": 1}`})
		testenv.Must(t, tx.Rollback(t.Context()))
	}
}

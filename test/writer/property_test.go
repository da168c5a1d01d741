package writer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/writertest"
)

// Random batches of random events, appended in random ways, are stored unchanged and in order.
func TestRandomEventsAreStoredUnchanged(t *testing.T) { onEach(t, anyEventsAreStoredAsTheyAre) }

func anyEventsAreStoredAsTheyAre(t *testing.T, e engine) {
	t.Helper()
	db := newDatabase(t, e, plain("outbox"))
	sessions := map[string]session{}
	var names []string
	for _, w := range e.ways() {
		names = append(names, w.name)
		sessions[w.name] = w.open(t, db.name, "")
	}
	rapid.Check(t, func(r *rapid.T) {
		db.clear(t, "outbox")
		name := rapid.SampledFrom(names).Draw(r, "way")
		events := rapid.SliceOfNDistinct(anEvent(), 1, 20, idOrNew).Draw(r, "events")
		tx := sessions[name].begin(t)
		defer func() { _ = tx.Rollback(t.Context()) }()
		testenv.Must(r, tx.Append(t.Context(), events...))
		testenv.Must(r, tx.Commit(t.Context()))
		requireRows(r, db.rows(t, "outbox"), events)
	})
}

// idOrNew makes drawn IDs distinct; events without an ID get one from Append.
func idOrNew(e *writer.Event) uuid.UUID {
	if e.ID == uuid.Nil {
		return uuid.New()
	}
	return e.ID
}

func anEvent() *rapid.Generator[*writer.Event] {
	text := rapid.Map(rapid.String(), func(s string) string { return strings.ReplaceAll(s, "\x00", "") })
	required := rapid.Map(text, func(s string) string { return s + "." })
	headers := rapid.MapOfN(rapid.Map(required, func(s string) string { return "h" + s }), text, 0, 4)
	return rapid.Custom(func(r *rapid.T) *writer.Event {
		e := &writer.Event{
			AggregateType: required.Draw(r, "aggregate type"), AggregateID: required.Draw(r, "aggregate id"),
			Type: required.Draw(r, "type"), TenantID: text.Draw(r, "tenant"), Topic: text.Draw(r, "topic"),
			PartitionKey: text.Draw(r, "key"), ContentType: text.Draw(r, "content type"), SchemaID: text.Draw(r, "schema"),
			SchemaVersion: int(rapid.Int32Range(0, 1<<31-1).Draw(r, "version")),
			Headers:       headers.Draw(r, "headers"),
		}
		if rapid.Bool().Draw(r, "has id") {
			copy(e.ID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(r, "id"))
			e.ID[0] &= 0x7f // no time after the year 9999
		}
		if rapid.Bool().Draw(r, "has time") {
			at := rapid.Int64Range(-62135596799, 253402300799).Draw(r, "seconds")
			e.OccurredAt = time.Unix(at, rapid.Int64Range(0, 999_999_999).Draw(r, "nanoseconds"))
		}
		if e.Tombstone = rapid.IntRange(0, 4).Draw(r, "tombstone") == 0; !e.Tombstone {
			e.Payload = append([]byte{}, rapid.SliceOf(rapid.Byte()).Draw(r, "payload")...)
		}
		return e
	})
}

// Writer and relay refuse the same header names.
func TestReservedHeadersAreRefused(t *testing.T) {
	events, err := writer.New(writer.Postgres)
	testenv.Must(t, err)
	name := rapid.OneOf(
		rapid.StringMatching(`[cC][eE][_-]?[a-z]{0,3}`), rapid.StringMatching(`[cC]ontent[-_][tT]ype.?`), rapid.StringN(1, 8, -1),
		rapid.SampledFrom([]string{"ce_", "CE_ID", "content-type", "CONTENT-TYPE", "traceparent", "id", "ce", "K"}),
	)
	rapid.Check(t, func(r *rapid.T) {
		e := newEvent(1)
		header := strings.ReplaceAll(name.Draw(r, "header"), "\x00", "0")
		e.Headers = map[string]string{header: "x"}
		err := events.Append(t.Context(), new(writertest.Recorder).Tx(), e)
		if refused := err != nil; refused != outbox.ReservedHeader(header) {
			r.Fatalf("header %q: refused by the writer: %v, by the relay: %v", header, refused, !refused)
		}
	})
}

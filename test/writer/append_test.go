package writer_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

func newEvent(i int) *writer.Event {
	return &writer.Event{
		AggregateType: "Order", AggregateID: fmt.Sprintf("o-%d", i), Type: "OrderPlaced", Payload: fmt.Appendf(nil, `{"n":%d}`, i),
	}
}

func newEvents(n int) []*writer.Event {
	events := make([]*writer.Event, n)
	for i := range events {
		events[i] = newEvent(i)
	}
	return events
}

// awkwardText contains everything that drivers must quote in SQL or arrays.
const awkwardText = "'\"\\ {},NULL\t\r\n\x01\x7f ünï$1 \U0001F600 \\x41 \\u0000 --;"

// awkwardEvents are valid and easily stored incorrectly.
func awkwardEvents() []*writer.Event {
	full := &writer.Event{
		ID: uuid.MustParse("01961b2c-5d6e-7f00-8000-000000000001"), AggregateType: "Order", AggregateID: "o-1", Type: "OrderPlaced",
		TenantID: "acme", Topic: "orders", PartitionKey: "k", ContentType: "application/protobuf", SchemaID: "order",
		SchemaVersion: math.MaxInt32, OccurredAt: time.Date(2026, 3, 4, 5, 6, 7, 891234999, time.FixedZone("", 5*3600+1800)),
		Headers: map[string]string{"traceparent": "00-1", "empty": ""}, Payload: []byte("\x00\xff\x80\\x41'"),
	}
	text := &writer.Event{
		AggregateType: awkwardText, AggregateID: awkwardText, Type: awkwardText, TenantID: awkwardText, Topic: awkwardText,
		PartitionKey: awkwardText, ContentType: awkwardText, SchemaID: awkwardText,
		Headers: map[string]string{awkwardText: awkwardText, "a": "NULL"}, Payload: []byte(awkwardText),
	}
	words := newEvent(2)
	words.AggregateID, words.TenantID, words.Topic, words.Payload = "NULL", "null", " ", []byte("NULL")
	empty, tombstone, random, ulid := newEvent(3), newEvent(4), newEvent(5), newEvent(6)
	empty.Payload = []byte{}
	tombstone.Payload, tombstone.Tombstone = nil, true
	random.ID = uuid.MustParse("5f9c3f1e-1111-4222-8333-444455556666")
	copy(ulid.ID[:], "\x01\x96\x1b\x2c\x5d\x6e\xf0123456789")
	first, last, epoch := newEvent(7), newEvent(8), newEvent(9)
	first.OccurredAt = time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC)
	last.OccurredAt = time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)
	epoch.OccurredAt = time.Unix(0, -1000)
	future := newEvent(10)
	future.ID = uuid.MustParse("e677d21f-dbff-7fff-bfff-ffffffffffff") // the last millisecond of the year 9999
	large := newEvent(11)
	large.Payload = bytes.Repeat([]byte("\\\x00\xff'\""), 1<<20/5)
	return []*writer.Event{full, text, words, empty, tombstone, random, ulid, first, last, epoch, future, large}
}

func TestEveryDriverStoresTheSameRows(t *testing.T) {
	onEach(t, storesWhatWasAppended)
	for _, version := range []int{14, 18} { // the oldest and the newest
		t.Run(fmt.Sprintf("PostgreSQL %d", version), func(t *testing.T) {
			t.Parallel()
			storesWhatWasAppended(t, postgres{testenv.Postgres(t, testenv.PostgresOptions{Version: version})})
		})
	}
}

func storesWhatWasAppended(t *testing.T, e engine) {
	t.Helper()
	db := newDatabase(t, e, plain("outbox"))
	for _, w := range e.ways() {
		t.Run(w.name, func(t *testing.T) {
			session := w.open(t, db.name, "")
			for name, group := range map[string]func([]*writer.Event) [][]*writer.Event{
				"one by one":  func(events []*writer.Event) [][]*writer.Event { return inGroups(events, 1) },
				"two by two":  func(events []*writer.Event) [][]*writer.Event { return inGroups(events, 2) },
				"all at once": func(events []*writer.Event) [][]*writer.Event { return inGroups(events, len(events)) },
				"in nines":    func(events []*writer.Event) [][]*writer.Event { return inGroups(events, 9) },
				"with a crowd": func(events []*writer.Event) [][]*writer.Event {
					return [][]*writer.Event{append(events, newEvents(900)...)}
				},
			} {
				db.clear(t, "outbox")
				var all []*writer.Event
				for _, events := range group(awkwardEvents()) {
					appendAll(t, session, events...)
					all = append(all, events...)
				}
				t.Log(name)
				requireRows(t, db.rows(t, "outbox"), all)
			}
		})
	}
}

// storesAwkwardEvents in every way.
func storesAwkwardEvents(t *testing.T, db *database) {
	t.Helper()
	for _, w := range db.ways() {
		t.Run(w.name, func(t *testing.T) {
			db.clear(t, "outbox")
			session, events := w.open(t, db.name, ""), awkwardEvents()
			appendAll(t, session, events[0])
			appendAll(t, session, events[1:]...)
			requireRows(t, db.rows(t, "outbox"), events)
		})
	}
}

func inGroups(events []*writer.Event, n int) (groups [][]*writer.Event) {
	for len(events) > n {
		groups, events = append(groups, events[:n]), events[n:]
	}
	return append(groups, events)
}

func TestEventsFollowTheTransaction(t *testing.T) { onEach(t, eventsGoTheTransactionsWay) }

func eventsGoTheTransactionsWay(t *testing.T, e engine) {
	t.Helper()
	db := newDatabase(t, e, daily("outbox"))
	db.exec(t, "CREATE TABLE orders (id varchar(10))")
	for _, w := range e.ways() {
		t.Run(w.name, func(t *testing.T) {
			db.clear(t, "outbox", "orders")
			session, ctx := w.open(t, db.name, ""), t.Context()
			events := newEvents(3)
			attempt := func() transaction {
				tx := session.begin(t)
				testenv.Must(t, tx.Exec(ctx, "INSERT INTO orders VALUES ('o-1')"))
				testenv.Must(t, tx.Append(ctx, events[0]))
				testenv.Must(t, tx.Append(ctx, events[1:]...))
				return tx
			}
			tx := attempt()
			ids := []uuid.UUID{events[0].ID, events[1].ID, events[2].ID}
			testenv.Must(t, tx.Rollback(ctx))
			if orders, rows := count(t, db, "orders"), count(t, db, "outbox"); orders != 0 || rows != 0 {
				t.Fatalf("%d orders and %d events after the rollback", orders, rows)
			}
			testenv.Must(t, attempt().Commit(ctx))
			if orders, rows := count(t, db, "orders"), count(t, db, "outbox"); orders != 1 || rows != 3 {
				t.Fatalf("%d orders and %d events after the commit", orders, rows)
			}
			for i, e := range events {
				if e.ID != ids[i] {
					t.Errorf("event %d has id %v in the second attempt and had %v in the first", i, e.ID, ids[i])
				}
			}
		})
	}
}

func TestCreatedAtChoosesThePartition(t *testing.T) { onEach(t, createdAtChoosesThePartition) }

func createdAtChoosesThePartition(t *testing.T, e engine) {
	t.Helper()
	db := newDatabase(t, e, daily("outbox"))
	now := time.Now()
	yesterday, far, random := newEvent(0), newEvent(1), newEvent(2)
	yesterday.ID = idOf(now.Add(-24 * time.Hour))
	far.ID = idOf(now.Add(1000 * time.Hour))
	random.ID = uuid.New()
	appendAll(t, e.ways()[0].open(t, db.name, ""), yesterday, far, random, newEvent(3))
	for partition, want := range map[string]int{
		e.partition(now.Add(-24 * time.Hour)): 1, e.partition(now): 2, e.partition(time.Time{}): 1,
	} {
		if n := count(t, db, partition); n != want {
			t.Errorf("%d rows in %s, want %d", n, partition, want)
		}
	}
}

// idOf returns a UUIDv7 with the given time.
func idOf(at time.Time) uuid.UUID {
	id := uuid.Must(uuid.NewV7())
	for i, ms := 5, at.UnixMilli(); i >= 0; i, ms = i-1, ms>>8 {
		id[i] = byte(ms)
	}
	return id
}

// storesInTables appends to tables by their names for WithTable, and reads them by their names in SQL.
func storesInTables(t *testing.T, db *database, tables map[string]string) {
	t.Helper()
	for name, want := range tables {
		for _, w := range db.ways() {
			db.clear(t, want)
			session := w.open(t, db.name, "", writer.WithTable(name))
			appendAll(t, session, newEvent(1))
			appendAll(t, session, newEvents(2)...)
			if n := count(t, db, want); n != 3 {
				t.Errorf("%s %s: %d rows, want 3", w.name, name, n)
			}
		}
	}
}

func TestPayloadColumnsOfTextAndJSON(t *testing.T) { onEach(t, payloadColumnsOfTextAndJSON) }

func payloadColumnsOfTextAndJSON(t *testing.T, e engine) {
	t.Helper()
	db := newDatabase(t, e)
	text, jsonb := plain("as_text"), plain("as_jsonb")
	text.Payload, jsonb.Payload = outbox.PayloadText, outbox.PayloadJSONB
	db.addTables(t, text, jsonb)
	for _, w := range e.ways() {
		t.Run(w.name, func(t *testing.T) {
			for table, column := range map[string]writer.PayloadColumn{"as_text": writer.PayloadText, "as_jsonb": writer.PayloadJSONB} {
				db.clear(t, table)
				session := w.open(t, db.name, "", writer.WithTable(table), writer.WithPayloadColumn(column))
				events := newEvents(4)
				events[0].Payload = []byte(`{"a": "\\u0000 é\u00e9 \" ' \\"}`)
				events[1].Payload = []byte(`{"b": "\\u0000 é\u00e9 \" ' \\"}`)
				events[2].Payload, events[2].Tombstone = nil, true
				appendAll(t, session, events[0])
				appendAll(t, session, events[1:]...)
				rows := db.rowsAs(t, table, db.speech().textPayload)
				for i, want := range []string{`"a": "`, `"b": "`, "", `"n"`} {
					if got := rows[i].Payload; (got == nil) != (want == "") || got != nil && !strings.Contains(*got, want) {
						t.Errorf("%s: row %d has payload %v, want %q", table, i, show(got), want)
					}
				}
				if table == "as_text" && *rows[0].Payload != string(events[0].Payload) {
					t.Errorf("payload %q, want %q", *rows[0].Payload, events[0].Payload)
				}
			}
		})
	}
}

package writer_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

// stored is a row with every value as the database's text, so that the driver converts nothing.
type stored struct {
	ID, AggregateType, AggregateID, Type      string
	Tenant, Topic, Key                        *string
	ContentType                               string
	SchemaID, SchemaVersion, Headers, Payload *string
	OccurredMicros                            int64
	CreatedMillis                             int64
	CreatedIsNow                              bool
}

// rows reads a table without partitions in the order of insertion.
func (db *database) rows(tb testing.TB, table string) []stored {
	tb.Helper()
	return db.rowsAs(tb, table, db.speech().payload)
}

func (db *database) rowsAs(tb testing.TB, table, payload string) []stored {
	tb.Helper()
	result, err := db.conn.QueryContext(tb.Context(), fmt.Sprintf(db.speech().rows, payload, table))
	testenv.Must(tb, err)
	defer result.Close()
	var all []stored
	for result.Next() {
		var s stored
		err := result.Scan(&s.ID, &s.AggregateType, &s.AggregateID, &s.Type, &s.Tenant, &s.Topic, &s.Key, &s.ContentType,
			&s.SchemaID, &s.SchemaVersion, &s.Headers, &s.Payload, &s.OccurredMicros, &s.CreatedMillis, &s.CreatedIsNow)
		testenv.Must(tb, err)
		all = append(all, s)
	}
	testenv.Must(tb, result.Err())
	return all
}

// expected returns the row of an event.
func expected(e *writer.Event) stored {
	s := stored{
		ID: hex.EncodeToString(e.ID[:]), AggregateType: e.AggregateType, AggregateID: e.AggregateID, Type: e.Type,
		Tenant: null(e.TenantID), Topic: null(e.Topic), Key: null(e.PartitionKey),
		ContentType: e.ContentType, SchemaID: null(e.SchemaID),
		OccurredMicros: e.OccurredAt.Truncate(time.Microsecond).UnixMicro(),
		CreatedIsNow:   true,
	}
	if s.ContentType == "" {
		s.ContentType = "application/json"
	}
	if e.SchemaVersion != 0 {
		s.SchemaVersion = null(fmt.Sprint(e.SchemaVersion))
	}
	if e.Payload != nil {
		payload := hex.EncodeToString(e.Payload)
		s.Payload = &payload
	}
	if hasTime(e.ID) {
		sec, nsec := e.ID.Time().UnixTime()
		s.CreatedMillis = sec*1000 + nsec/1_000_000
		age := time.Since(time.UnixMilli(s.CreatedMillis))
		s.CreatedIsNow = age >= 0 && age < 5*time.Minute
	}
	return s
}

func null(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// requireRows compares what is stored with what was appended, in order.
func requireRows(tb rapid.TB, got []stored, events []*writer.Event) {
	tb.Helper()
	if len(got) != len(events) {
		tb.Fatalf("%d rows for %d events", len(got), len(events))
	}
	for i, e := range events {
		want, have := expected(e), got[i]
		requireHeaders(tb, have.Headers, e.Headers)
		have.Headers = nil
		if !hasTime(e.ID) {
			want.CreatedMillis = have.CreatedMillis // the database's own now()
		}
		if !reflect.DeepEqual(have, want) {
			tb.Fatalf("row %d is\n%s, want\n%s", i, show(have), show(want))
		}
	}
}

func hasTime(id uuid.UUID) bool { return id.Version() == 7 && id.Variant() == uuid.RFC4122 }

func requireHeaders(tb rapid.TB, have *string, want map[string]string) {
	tb.Helper()
	if have == nil {
		if len(want) != 0 {
			tb.Fatalf("headers are NULL, want %q", want)
		}
		return
	}
	var headers map[string]string
	testenv.Must(tb, json.Unmarshal([]byte(*have), &headers))
	if !reflect.DeepEqual(headers, want) {
		tb.Fatalf("headers %q, want %q", headers, want)
	}
}

func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

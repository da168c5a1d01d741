package writer_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/writer"
)

// An event is refused as ErrInvalidEvent, or its row has exactly the event's values and can be stored. Seeds are in
// testdata/fuzz/FuzzPrepare.
func FuzzPrepare(f *testing.F) {
	f.Add([]byte{}, "Order", "o-1", "OrderPlaced", "acme", "traceparent", "00-1", []byte(`{}`), false, 0, int64(0))
	f.Add([]byte{}, "", "", "", "", "", "", []byte(nil), true, -1, int64(math.MaxInt64))
	writers := []*writer.Writer{newWriter(f), newMySQL(f)}
	f.Fuzz(func(t *testing.T, id []byte, aggregate, key, typ, tenant, name, value string, payload []byte, tombstone bool, version int, sec int64) {
		e := &writer.Event{
			AggregateType: aggregate, AggregateID: key, Type: typ, TenantID: tenant, SchemaVersion: version,
			Headers: map[string]string{name: value, "z": aggregate}, Payload: payload, Tombstone: tombstone,
		}
		copy(e.ID[:], id)
		if sec != 0 {
			e.OccurredAt = time.Unix(sec, 123456789)
		}
		for i, w := range writers {
			rows, err := w.Prepare(t.Context(), e)
			if err != nil {
				if !errors.Is(err, writer.ErrInvalidEvent) || len(rows) != 0 {
					t.Fatalf("error %v with %d rows", err, len(rows))
				}
				continue
			}
			if len(rows) != 1 {
				t.Fatalf("%d rows", len(rows))
			}
			requireStorable(t, rows[0])
			requireSame(t, rows[0], e)
			if i > 0 && utf8.RuneCountInString(aggregate) > 255 {
				t.Fatalf("aggregate type of %d characters", utf8.RuneCountInString(aggregate))
			}
		}
	})
}

func requireStorable(t *testing.T, r writer.Row) {
	t.Helper()
	for _, text := range []string{r.AggregateType, r.AggregateID, r.EventType, r.TenantID, r.ContentType, r.Headers} {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			t.Fatalf("text %q", text)
		}
	}
	if r.AggregateType == "" || r.AggregateID == "" || r.EventType == "" || r.ContentType == "" || r.EventID == uuid.Nil {
		t.Fatalf("a required column is empty: %+v", r)
	}
	for _, at := range []time.Time{r.OccurredAt, r.CreatedAt} {
		if at.Year() < 1 || at.Year() > 9999 || at.Location() != time.UTC || at.Nanosecond()%1000 != 0 {
			t.Fatalf("time %v", at)
		}
	}
}

func requireSame(t *testing.T, r writer.Row, e *writer.Event) {
	t.Helper()
	if r.EventID != e.ID || r.AggregateType != e.AggregateType || r.AggregateID != e.AggregateID || r.EventType != e.Type ||
		r.TenantID != e.TenantID || int(r.SchemaVersion) != e.SchemaVersion || !bytes.Equal(r.Payload, e.Payload) ||
		(r.Payload == nil) != e.Tombstone || !r.OccurredAt.Equal(e.OccurredAt.Truncate(time.Microsecond)) {
		t.Fatalf("row %+v of event %+v", r, e)
	}
	headers := map[string]string{}
	if err := json.Unmarshal([]byte(r.Headers), &headers); err != nil {
		t.Fatal(err)
	}
	if len(headers) != len(e.Headers) {
		t.Fatalf("headers %s of %q", r.Headers, e.Headers)
	}
	for name, value := range e.Headers {
		lower := strings.ToLower(name)
		if headers[name] != value || strings.ContainsRune(name+value, 0) || name == "" || lower == "content-type" || strings.HasPrefix(lower, "ce_") {
			t.Fatalf("headers %s of %q", r.Headers, e.Headers)
		}
	}
}

// A table name is refused, or quoted so that it parses as the same name.
func FuzzWithTable(f *testing.F) {
	for _, name := range []string{"outbox", "app.outbox", `"a.b"."c""d"`, `"`, `a"b`, "a.b.c", "", "`a.b`.`c``d`", "a`b"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, d := range []writer.Dialect{writer.Postgres, writer.MySQL} {
			w, err := writer.New(d, writer.WithTable(name))
			if err != nil {
				continue
			}
			again, err := writer.New(d, writer.WithTable(w.Table()))
			if err != nil || again.Table() != w.Table() {
				t.Fatalf("%q is %s, which reads back as %v, %v", name, w.Table(), again, err)
			}
		}
	})
}

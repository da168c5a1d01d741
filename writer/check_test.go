package writer_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/writer"
)

// badEvents make a good event bad; the error must have field and reason.
var badEvents = map[string]struct {
	spoil         func(*writer.Event)
	field, reason string
}{
	"no aggregate type":    {func(e *writer.Event) { e.AggregateType = "" }, "AggregateType", "is empty"},
	"no aggregate id":      {func(e *writer.Event) { e.AggregateID = "" }, "AggregateID", "is empty"},
	"only a partition key": {func(e *writer.Event) { e.AggregateID, e.PartitionKey = "", "k" }, "AggregateID", "is empty"},
	"no type":              {func(e *writer.Event) { e.Type = "" }, "Type", "is empty"},

	"aggregate type not UTF-8": {func(e *writer.Event) { e.AggregateType = "ok\xff" }, "AggregateType", "not valid UTF-8 (byte 2)"},
	"aggregate id not UTF-8":   {func(e *writer.Event) { e.AggregateID = "\xc3" }, "AggregateID", "not valid UTF-8 (byte 0)"},
	"type not UTF-8":           {func(e *writer.Event) { e.Type = "\uFFFD\xed\xa0\x80" }, "Type", "not valid UTF-8 (byte 3)"},
	"tenant not UTF-8":         {func(e *writer.Event) { e.TenantID = "\xff" }, "TenantID", "UTF-8"},
	"topic not UTF-8":          {func(e *writer.Event) { e.Topic = "\xff" }, "Topic", "UTF-8"},
	"partition key not UTF-8":  {func(e *writer.Event) { e.PartitionKey = "\xff" }, "PartitionKey", "UTF-8"},
	"content type not UTF-8":   {func(e *writer.Event) { e.ContentType = "\xff" }, "ContentType", "UTF-8"},
	"schema id not UTF-8":      {func(e *writer.Event) { e.SchemaID = "\xff" }, "SchemaID", "UTF-8"},
	"aggregate id with NUL":    {func(e *writer.Event) { e.AggregateID = "a\x00" }, "AggregateID", "contains U+0000 (byte 1)"},
	"partition key with NUL":   {func(e *writer.Event) { e.PartitionKey = "\x00" }, "PartitionKey", "contains U+0000"},

	"negative schema version":     {func(e *writer.Event) { e.SchemaVersion = -1 }, "SchemaVersion", "is -1"},
	"schema version over 32 bits": {func(e *writer.Event) { e.SchemaVersion = math.MaxInt32 + 1 }, "SchemaVersion", "is 2147483648"},

	"time before year 1":   {func(e *writer.Event) { e.OccurredAt = time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC) }, "OccurredAt", "year 0"},
	"time BC":              {func(e *writer.Event) { e.OccurredAt = time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC) }, "OccurredAt", "year -5000"},
	"time after year 9999": {func(e *writer.Event) { e.OccurredAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, "OccurredAt", "year 10000"},
	"year 10000 in UTC": {func(e *writer.Event) {
		e.OccurredAt = time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -2*3600))
	}, "OccurredAt", "year 10000"},
	"id of a far future": {func(e *writer.Event) { e.ID = uuid.MustParse("ffffffff-ffff-7fff-bfff-ffffffffffff") }, "ID", "after the year 9999"},

	"header without a name":    {header("", "x"), `Headers[""]`, "empty name"},
	"header ce_id":             {header("ce_id", "x"), `Headers["ce_id"]`, "relay reserves"},
	"header CE_anything":       {header("CE_anything", "x"), `Headers["CE_anything"]`, "relay reserves"},
	"header ce_":               {header("ce_", "x"), `Headers["ce_"]`, "relay reserves"},
	"header Content-Type":      {header("Content-Type", "x"), `Headers["Content-Type"]`, "relay reserves"},
	"header name not UTF-8":    {header("a\xff", "x"), `Headers["a\xff"]`, "has a name that is not valid UTF-8 (byte 1)"},
	"header name with NUL":     {header("a\x00", "x"), `Headers["a\x00"]`, "has a name that contains U+0000"},
	"header value not UTF-8":   {header("a", "\xff"), `Headers["a"]`, "is not valid UTF-8"},
	"header value with NUL":    {header("a", "\x00"), `Headers["a"]`, "contains U+0000"},
	"several, the first named": {func(e *writer.Event) { e.Headers = map[string]string{"c": "\x00", "b": "\x00", "ok": ""} }, `Headers["b"]`, "U+0000"},

	"no payload":                {func(e *writer.Event) { e.Payload = nil }, "Payload", "set Tombstone"},
	"tombstone with a payload":  {func(e *writer.Event) { e.Tombstone = true }, "Payload", "remove one of them"},
	"tombstone, payload empty":  {func(e *writer.Event) { e.Tombstone, e.Payload = true, []byte{} }, "Payload", "remove one of them"},
	"payload a byte over 1 MiB": {func(e *writer.Event) { e.Payload = make([]byte, 1<<20+1) }, "Payload", "has 1048577 bytes, and the limit is 1048576"},
}

func header(name, value string) func(*writer.Event) {
	return func(e *writer.Event) { e.Headers = map[string]string{"traceparent": "00-1", name: value} }
}

func TestAppendRefusesBadEvents(t *testing.T) {
	for name, c := range badEvents {
		for _, n := range []int{1, 3} {
			t.Run(name, func(t *testing.T) {
				events := newEvents(n)
				c.spoil(events[n-1])
				tx := &recorder{}
				err := newWriter(t).Append(t.Context(), tx, events...)
				requireEventError(t, err, n-1, c.field, c.reason)
				if len(tx.statements) != 0 {
					t.Errorf("%d statements reached the database", len(tx.statements))
				}
				if n > 1 && (events[0].ID != uuid.Nil || !events[0].OccurredAt.IsZero()) {
					t.Error("a refused call filled in an event")
				}
			})
		}
	}
}

func requireEventError(t *testing.T, err error, index int, field, reason string) {
	t.Helper()
	e := new(writer.EventError)
	if !errors.As(err, &e) || !errors.Is(err, writer.ErrInvalidEvent) {
		t.Fatalf("error %v (%T), want an EventError that is ErrInvalidEvent", err, err)
	}
	if e.Index != index || e.Field != field || !strings.Contains(e.Reason, reason) {
		t.Errorf("error %+v, want index %d, field %s, reason with %q", e, index, field, reason)
	}
	if !strings.Contains(e.Reason, ": ") {
		t.Errorf("reason %q names no fix", e.Reason)
	}
	if tooLarge := strings.Contains(reason, "the limit is"); errors.Is(err, writer.ErrPayloadTooLarge) != tooLarge {
		t.Errorf("is ErrPayloadTooLarge: %v, want %v", !tooLarge, tooLarge)
	}
}

func TestAppendRefusesTheSameEventTwice(t *testing.T) {
	for name, spoil := range map[string]func(*writer.Event){
		"new":   func(*writer.Event) {},
		"given": func(e *writer.Event) { e.ID = uuid.New() },
	} {
		t.Run(name, func(t *testing.T) {
			events := append(newEvents(3), nil)
			spoil(events[1])
			events[3] = events[1]
			tx := &recorder{}
			err := newWriter(t).Append(t.Context(), tx, events...)
			requireEventError(t, err, 3, "", "is the same Event as event 1")
			if len(tx.statements) != 0 {
				t.Error("it reached the database")
			}
		})
	}
}

func TestAppendRefusesTheSameIDTwice(t *testing.T) {
	events := newEvents(300)
	events[4].ID = uuid.New()
	events[299].ID = events[4].ID
	tx := &recorder{}
	requireEventError(t, newWriter(t).Append(t.Context(), tx, events...), 299, "ID", "is also the ID of event 4")
	if len(tx.statements) != 0 {
		t.Error("it reached the database")
	}
}

// goodEvents are unusual but valid.
var goodEvents = map[string]func(*writer.Event){
	"traceparent header":        header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
	"header like reserved":      header("ce-id", ""),
	"header ce":                 header("ce", "x"),
	"header id":                 header("id", "x"),
	"header of a Kelvin sign":   header("\u212a", "x"), // whose lower case is a k
	"header with a hyphen":      header("content\u2010type", "x"),
	"header of \\u0000 as text": header("a", `\u0000`),
	"replacement character":     func(e *writer.Event) { e.AggregateID = "\uFFFD" },
	"empty payload":             func(e *writer.Event) { e.Payload = []byte{} },
	"tombstone":                 func(e *writer.Event) { e.Payload, e.Tombstone = nil, true },
	"payload of 1 MiB":          func(e *writer.Event) { e.Payload = make([]byte, 1<<20) },
	"payload of any bytes":      func(e *writer.Event) { e.Payload = []byte("\x00\xff") },
	"empty headers":             func(e *writer.Event) { e.Headers = map[string]string{} },
	"greatest schema version":   func(e *writer.Event) { e.SchemaVersion = math.MaxInt32 },
	"first and last year": func(e *writer.Event) {
		e.OccurredAt = time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)
	},
	"ULID": func(e *writer.Event) { copy(e.ID[:], "\x01\x96\x1b\x2c\x5d\x6e01234567890") },
}

func TestAppendTakesUnusualEvents(t *testing.T) {
	for name, change := range goodEvents {
		t.Run(name, func(t *testing.T) {
			e := newEvent()
			change(e)
			if err := newWriter(t).Append(t.Context(), &recorder{}, e); err != nil {
				t.Error(err)
			}
		})
	}
}

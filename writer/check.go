package writer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Header names that the relay reserves: the attributes of CloudEvents (Kafka protocol binding for CloudEvents 1.0.2,
// section 3.2.3) and the payload's media type.
const (
	reservedPrefix = "ce_"
	reservedName   = "content-type"
)

const (
	reasonMissing  = "is empty: "
	reasonUTF8     = "is not valid UTF-8 (byte %d): encode it as UTF-8"
	reasonNUL      = "contains U+0000 (byte %d), which not every database stores in text: remove it"
	reasonReserved = "is a name that the relay reserves: choose one that neither starts with ce_ nor is content-type"
)

// check returns the event's first error, an *EventError.
func (w *Writer) check(index int, e *Event) error {
	if e == nil {
		return invalid(index, "", "is nil: pass a pointer to an Event")
	}
	if err := checkRequired(index, e); err != nil {
		return err
	}
	if err := w.checkTexts(index, e); err != nil {
		return err
	}
	if err := checkNumbers(index, e); err != nil {
		return err
	}
	if len(e.Headers) > 0 {
		if err := checkHeaders(index, e.Headers); err != nil {
			return err
		}
	}
	return w.checkPayload(index, e)
}

func checkRequired(index int, e *Event) error {
	switch {
	case e.AggregateType == "":
		return invalid(index, "AggregateType", reasonMissing+`set the type of the entity, for example "Order"`)
	case e.AggregateID == "":
		return invalid(index, "AggregateID", reasonMissing+"set the ID of the entity; it is the record's key unless PartitionKey is set")
	case e.Type == "":
		return invalid(index, "Type", reasonMissing+`set the type of the event, for example "OrderPlaced"`)
	default:
		return nil
	}
}

func (w *Writer) checkTexts(index int, e *Event) error {
	for _, f := range [...]struct{ name, text string }{
		{"AggregateType", e.AggregateType},
		{"AggregateID", e.AggregateID},
		{"Type", e.Type},
		{"TenantID", e.TenantID},
		{"Topic", e.Topic},
		{"PartitionKey", e.PartitionKey},
		{"ContentType", e.ContentType},
		{"SchemaID", e.SchemaID},
	} {
		reason := checkText(f.text)
		if reason == "" {
			reason = w.tooLong(f.text)
		}
		if reason != "" {
			return invalid(index, f.name, reason)
		}
	}
	return nil
}

// tooLong returns a reason if the text is longer than a column, else "".
func (w *Writer) tooLong(s string) string {
	if w.maxText == 0 || len(s) <= w.maxText {
		return ""
	}
	if n := utf8.RuneCountInString(s); n > w.maxText {
		return fmt.Sprintf("has %d characters, and its column takes %d: shorten it", n, w.maxText)
	}
	return ""
}

// checkText returns why a database would refuse the text, or "".
func checkText(s string) string {
	if i := strings.IndexByte(s, 0); i >= 0 {
		return fmt.Sprintf(reasonNUL, i)
	}
	if utf8.ValidString(s) {
		return ""
	}
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)) {
			return fmt.Sprintf(reasonUTF8, i)
		}
	}
	return ""
}

func checkNumbers(index int, e *Event) error {
	switch {
	case e.SchemaVersion < 0 || e.SchemaVersion > math.MaxInt32:
		return invalid(index, "SchemaVersion",
			fmt.Sprintf("is %d: give 1 to %d, or 0 for none", e.SchemaVersion, math.MaxInt32))
	case !e.OccurredAt.IsZero() && !storable(e.OccurredAt):
		return invalid(index, "OccurredAt",
			fmt.Sprintf("is in the year %d: give a time in the years 1 to 9999", e.OccurredAt.UTC().Year()))
	case !storable(createdAt(e.ID)):
		return invalid(index, "ID", "is a UUIDv7 of a time after the year 9999: leave it zero to get a new one")
	default:
		return nil
	}
}

// storable reports whether every database, and RFC 3339, the format in records, can represent the time.
func storable(t time.Time) bool {
	year := t.UTC().Year()
	return year >= 1 && year <= 9999
}

// checkHeaders reports the bad header that sorts first, so that the error is always the same.
func checkHeaders(index int, headers map[string]string) error {
	worst, reason := "", ""
	for name, value := range headers {
		if r := checkHeader(name, value); r != "" && (reason == "" || name < worst) {
			worst, reason = name, r
		}
	}
	if reason == "" {
		return nil
	}
	return invalid(index, "Headers["+strconv.Quote(worst)+"]", reason)
}

func checkHeader(name, value string) string {
	if name == "" {
		return "has an empty name: set a name or remove the header"
	}
	if isReserved(name) {
		return reasonReserved
	}
	if reason := checkText(name); reason != "" {
		return "has a name that " + reason
	}
	return checkText(value)
}

func isReserved(name string) bool {
	return strings.EqualFold(name, reservedName) ||
		len(name) >= len(reservedPrefix) && strings.EqualFold(name[:len(reservedPrefix)], reservedPrefix)
}

func (w *Writer) checkPayload(index int, e *Event) error {
	switch {
	case e.Payload == nil && !e.Tombstone:
		return invalid(index, "Payload", "is nil: set it, or set Tombstone for a record with a null value")
	case e.Payload != nil && e.Tombstone:
		return invalid(index, "Payload", "is set together with Tombstone, which means a null value: remove one of them")
	case len(e.Payload) > w.maxPayload:
		return &EventError{
			Index: index, Field: "Payload", kind: ErrPayloadTooLarge,
			Reason: fmt.Sprintf("has %d bytes, and the limit is %d: store the data elsewhere and send a reference, "+
				"or raise WithMaxPayload and the topic's max.message.bytes", len(e.Payload), w.maxPayload),
		}
	case e.Payload == nil || w.payload == PayloadBytea:
		return nil
	}
	if reason := w.refuses(e.Payload); reason != "" {
		return invalid(index, "Payload", reason)
	}
	return nil
}

// refuses returns why a column of text or JSON would refuse the payload, or "". It leaves limits of numbers and depth, and
// lone surrogates, to the database.
func (w *Writer) refuses(payload []byte) string {
	isJSON := w.payload == PayloadJSONB
	switch {
	case !utf8.Valid(payload):
		return "is not valid UTF-8, and the payload column is text: encode it as UTF-8, or use a table with " + w.bytes()
	case w.dialect == Postgres && (bytes.IndexByte(payload, 0) >= 0 || isJSON && escapesNUL(payload)):
		return "contains U+0000, which PostgreSQL does not store in text and jsonb: remove it, or use a table with bytea"
	case isJSON && !json.Valid(payload):
		return "is not JSON, and the payload column is: encode it as JSON, or use a table with " + w.bytes()
	default:
		return ""
	}
}

// bytes returns the type of a payload column that takes any bytes.
func (w *Writer) bytes() string {
	if w.dialect == Postgres {
		return "bytea"
	}
	return "LONGBLOB"
}

// escapesNUL reports whether JSON text contains \u0000 that is not preceded by another backslash.
func escapesNUL(json []byte) bool {
	for escape := false; len(json) > 0; json = json[1:] {
		if escape && bytes.HasPrefix(json, []byte("u0000")) {
			return true
		}
		escape = json[0] == '\\' && !escape
	}
	return false
}

// checkDistinct refuses a repeated ID, because the table's key would fail the transaction.
func checkDistinct(events []*Event) error {
	seen := make(map[uuid.UUID]int, len(events))
	for i, e := range events {
		if first, ok := seen[e.ID]; ok {
			if e == events[first] {
				return invalid(i, "", fmt.Sprintf("is the same Event as event %d: pass each once", first))
			}
			return invalid(i, "ID", fmt.Sprintf("is also the ID of event %d: give each its own, or leave it zero", first))
		}
		seen[e.ID] = i
	}
	return nil
}

func invalid(index int, field, reason string) error {
	return &EventError{Index: index, Field: field, Reason: reason, kind: ErrInvalidEvent}
}

package deadletter

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// The headers of a letter, always all of them, first and in this order. Those of the event's record follow, byte for byte.
const (
	headerReason   = "dead_letter_reason"
	headerError    = "dead_letter_error"
	headerTable    = "dead_letter_table"
	headerTopic    = "dead_letter_topic"
	headerPosition = "dead_letter_position"
	headerTime     = "dead_letter_time"
	headerAttempts = "dead_letter_attempts"
	headerKey      = "dead_letter_key"
	headerValue    = "dead_letter_value"
	headerRow      = "dead_letter_row"
)

func headers() []string {
	return []string{
		headerReason, headerError, headerTable, headerTopic, headerPosition, headerTime, headerAttempts, headerKey, headerValue, headerRow,
	}
}

// What a letter's value is.
const (
	valuePayload = "payload"
	// valueNull: the payload is NULL. The value is empty, because a null one would be a tombstone of the topic.
	valueNull = "null"
)

// Letter is a letter's record.
type Letter struct {
	Entry

	// RecordKey is that of the event's record; nil: none.
	RecordKey []byte
	// Payload is nil for NULL.
	Payload []byte
	// Headers are those of the event's record; none if it made no record.
	Headers []cdc.Header
	Row     Row
}

// Row is the row that a letter was made of, without its payload.
type Row struct {
	// What an entry has of it, for an entry that is written again.
	ID            string `json:"id,omitempty"`
	Type          string `json:"type,omitempty"`
	AggregateType string `json:"aggregate_type,omitempty"`
	Tenant        string `json:"tenant,omitempty"`

	Commit  uint64   `json:"commit,omitempty"`
	TxName  string   `json:"gtid,omitempty"`
	Time    int64    `json:"time"` // see [cdc.Tx]
	Ordinal uint32   `json:"ordinal"`
	Schema  string   `json:"schema"`
	Table   string   `json:"table"`
	Columns []Column `json:"columns"`
}

// Column is a value of a row.
type Column struct {
	Name string   `json:"name"`
	Form cdc.Form `json:"form"`
	Type cdc.Type `json:"type,omitempty"`
	// Payload says that the letter has the value.
	Payload bool `json:"payload,omitempty"`
	// Text is a value in UTF-8, and Bytes is another one; neither is NULL.
	Text  *string `json:"text,omitempty"`
	Bytes *[]byte `json:"bytes,omitempty"`
}

// maxError is how much of an error a letter has.
const maxError = 500

// Shortened is an error's text as a letter has it.
func Shortened(err error) string {
	text := err.Error()
	if len(text) <= maxError {
		return text
	}
	cut := maxError
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + " ..."
}

// RowOf returns a row of b. payload is the index of its column, or -1, and payloadForm how the letter has it.
func RowOf(b *cdc.Batch, row, payload int, payloadForm cdc.Form) Row {
	tx, ordinal := b.Tx(row)
	r := Row{Commit: tx.Commit, TxName: b.NameOf(row), Time: tx.Time, Ordinal: ordinal, Schema: b.Table.Schema, Table: b.Table.Name}
	for i := range b.Table.Columns {
		c := Column{Name: b.Table.Columns[i].Name, Form: b.Table.Columns[i].Form, Type: b.Table.Columns[i].Type, Payload: i == payload}
		raw, ok := b.Value(row, i)
		if c.Form == cdc.FormMySQLJSON && !c.Payload { // earlier releases do not know the form, not even of a NULL
			if text, err := c.Form.AppendText(nil, raw); err == nil {
				raw, c.Form = text, cdc.FormText
			}
		}
		switch {
		case c.Payload:
			c.Form = payloadForm
		case !ok:
		case utf8.Valid(raw):
			text := string(raw)
			c.Text = &text
		default:
			bytes := append([]byte{}, raw...)
			c.Bytes = &bytes
		}
		r.Columns = append(r.Columns, c)
	}
	return r
}

// Batch returns the row as the source handed it on. tables has the schemas that were used before: equal rows share one.
func (l *Letter) Batch(tables map[string]*cdc.Table) *cdc.Batch {
	t := l.Row.schema(tables)
	b := &cdc.Batch{Seq: 1, Table: t, Txs: []cdc.Tx{{Commit: l.Row.Commit, Time: l.Row.Time, Ordinal: l.Row.Ordinal}}}
	if name := l.Row.TxName; name != "" {
		b.TxName = func(int) string { return name }
	}
	for i := range l.Row.Columns {
		span := cdc.Span{Off: int32(len(b.Arena)), Len: -1}
		if value, ok := l.value(&l.Row.Columns[i]); ok {
			span.Len = int32(len(value))
			b.Arena = append(b.Arena, value...)
		}
		b.Spans = append(b.Spans, span)
	}
	b.Bytes = len(b.Arena)
	return b
}

func (l *Letter) value(c *Column) ([]byte, bool) {
	switch {
	case c.Payload:
		return l.Payload, l.Payload != nil
	case c.Text != nil:
		return []byte(*c.Text), true
	case c.Bytes != nil:
		return *c.Bytes, true
	}
	return nil, false
}

// schema returns the table. A router keeps what it derives from one, so equal ones are the same.
func (r *Row) schema(tables map[string]*cdc.Table) *cdc.Table {
	parts := []string{r.Schema, r.Table}
	for i := range r.Columns {
		parts = append(parts, fmt.Sprintf("%d %d %s", r.Columns[i].Form, r.Columns[i].Type, r.Columns[i].Name))
	}
	name := strings.Join(parts, "\x00")
	t := tables[name]
	if t == nil {
		t = &cdc.Table{Schema: r.Schema, Name: r.Table}
		for i := range r.Columns {
			t.Columns = append(t.Columns, cdc.Column{Name: r.Columns[i].Name, Form: r.Columns[i].Form, Type: r.Columns[i].Type})
		}
		tables[name] = t
	}
	return t
}

// EncodeRecord returns the value and the headers of the letter's record.
func (l *Letter) EncodeRecord() (value []byte, all []cdc.Header) {
	l.Row.ID, l.Row.Type, l.Row.AggregateType, l.Row.Tenant = l.ID, l.Type, l.AggregateType, l.Tenant
	row, _ := json.Marshal(l.Row) // cannot fail: strings, bytes and numbers
	kind := valuePayload
	if value = l.Payload; value == nil {
		kind, value = valueNull, []byte{}
	}
	texts := []string{
		l.Reason, l.Error, l.Table, l.Topic, l.Place, l.Time.UTC().Format(time.RFC3339Nano), strconv.Itoa(l.Attempts), "", kind, string(row),
	}
	for i, name := range headers() {
		h := cdc.Header{Key: []byte(name), Value: []byte(texts[i])}
		if name == headerKey {
			h.Value = l.RecordKey
		}
		all = append(all, h)
	}
	return value, append(all, l.Headers...)
}

// Decode reads a letter's record: those of its [Entry] that the record has, and all else.
func Decode(value []byte, all []cdc.Header) (*Letter, error) {
	names := headers()
	if len(all) < len(names) {
		return nil, fmt.Errorf("record has %d headers and is no dead letter", len(all))
	}
	text := map[string]string{}
	for i, name := range names {
		if string(all[i].Key) != name {
			return nil, fmt.Errorf("header %d is %.100q and not %s, so the record is no dead letter", i, all[i].Key, name)
		}
		text[name] = string(all[i].Value)
	}
	l := &Letter{Headers: all[len(names):], RecordKey: all[7].Value, Payload: value, Entry: Entry{
		Reason: text[headerReason], Error: text[headerError], Table: text[headerTable], Topic: text[headerTopic], Place: text[headerPosition],
	}}
	l.Key = cdc.KeyText(l.RecordKey)
	switch text[headerValue] {
	case valuePayload:
		if value == nil {
			l.Payload = []byte{} // not NULL
		}
	case valueNull:
		l.Payload = nil
	default: // a stub of an earlier version has no payload: what it says must not be published
		return nil, cdc.Fixable("resolve the dead letter with the cdc-relay that wrote it", "header %s is %.100q, which this version does not know", headerValue, text[headerValue])
	}
	var err error
	if l.Time, err = time.Parse(time.RFC3339Nano, text[headerTime]); err == nil {
		l.Attempts, err = strconv.Atoi(text[headerAttempts])
	}
	if err == nil {
		err = json.Unmarshal([]byte(text[headerRow]), &l.Row)
	}
	l.ID, l.Type, l.AggregateType, l.Tenant = l.Row.ID, l.Row.Type, l.Row.AggregateType, l.Row.Tenant
	if err != nil {
		return nil, fmt.Errorf("headers of the dead letter: %w", err)
	}
	return l, nil
}

package writer

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// arraysSelect returns the SELECT that turns an array for each column into rows.
//
// Set-returning functions in a select list run side by side, and the shorter ones are filled up with NULL
// (PostgreSQL documentation, "SQL Functions Returning Sets"): a column that no row uses is a NULL array.
// They stream, where FROM unnest(a, b, ...) stores the elements of each array first. Ids and headers are
// arrays of text with a cast, because drivers that do not ask the server for the types know no others.
func arraysSelect(payload string) string {
	return `
SELECT event_id::uuid, aggregate_type, aggregate_id, event_type, NULLIF(tenant_id, ''), NULLIF(topic, ''), ` +
		`NULLIF(partition_key, ''), content_type, NULLIF(schema_id, ''), NULLIF(schema_version, 0), ` +
		`NULLIF(headers, '')::jsonb, ` + payload + `, occurred_at, COALESCE(created_at, now())
FROM (SELECT unnest($1::text[]) AS event_id, unnest($2::text[]) AS aggregate_type, unnest($3::text[]) AS aggregate_id, ` +
		`unnest($4::text[]) AS event_type, unnest($5::text[]) AS tenant_id, unnest($6::text[]) AS topic, ` +
		`unnest($7::text[]) AS partition_key, unnest($8::text[]) AS content_type, unnest($9::text[]) AS schema_id, ` +
		`unnest($10::int[]) AS schema_version, unnest($11::text[]) AS headers, unnest($12::bytea[]) AS payload, ` +
		`unnest($13::timestamptz[]) AS occurred_at, unnest($14::timestamptz[]) AS created_at) AS e`
}

// InsertArrays returns the INSERT of any number of rows, always the same text, for adapters. Its 14
// arguments are arrays, in the order of Row's fields, of text (event_id and headers too), int, bytea and
// timestamptz; "" and 0 stand for NULL, and so does a NULL array for all of them.
func (w *Writer) InsertArrays() string { return w.sql.arrays }

// arrays returns the arguments of InsertArrays as text (PostgreSQL documentation, "Array Input and Output
// Syntax"), which every driver sends as it is.
func arrays(rows []Row) []any {
	return []any{
		array(rows, hex.EncodedLen(len(rows[0].EventID)), func(*Row) bool { return true },
			func(b *strings.Builder, r *Row) { writeHex(b, r.EventID[:]) }), // uuid needs no hyphens
		textArray(rows, func(r *Row) string { return r.AggregateType }),
		textArray(rows, func(r *Row) string { return r.AggregateID }),
		textArray(rows, func(r *Row) string { return r.EventType }),
		textArray(rows, func(r *Row) string { return r.TenantID }),
		textArray(rows, func(r *Row) string { return r.Topic }),
		textArray(rows, func(r *Row) string { return r.PartitionKey }),
		textArray(rows, func(r *Row) string { return r.ContentType }),
		textArray(rows, func(r *Row) string { return r.SchemaID }),
		array(rows, len("0"), func(r *Row) bool { return r.SchemaVersion != 0 },
			func(b *strings.Builder, r *Row) { b.WriteString(strconv.Itoa(int(r.SchemaVersion))) }),
		textArray(rows, func(r *Row) string { return r.Headers }),
		payloadArray(rows),
		timeArray(rows, func(r *Row) time.Time { return r.OccurredAt }),
		timeArray(rows, func(r *Row) time.Time { return r.CreatedAt }),
	}
}

// array returns an array of what write adds for each row, or nil if no row has a value. Size is about the
// length of an element.
func array(rows []Row, size int, has func(*Row) bool, write func(*strings.Builder, *Row)) any {
	first := 0
	for first < len(rows) && !has(&rows[first]) {
		first++
	}
	if first == len(rows) {
		return nil
	}
	var b strings.Builder
	b.Grow(len(rows)*(size+1) + 1)
	separator := byte('{')
	for i := range rows {
		b.WriteByte(separator)
		write(&b, &rows[i])
		separator = ','
	}
	b.WriteByte('}')
	return b.String()
}

func textArray(rows []Row, text func(*Row) string) any {
	size := 0
	for i := range rows {
		size += len(text(&rows[i]))
	}
	return array(rows, size/len(rows)+3, func(r *Row) bool { return text(r) != "" },
		func(b *strings.Builder, r *Row) { writeQuoted(b, text(r)) })
}

// writeQuoted writes text in quotes, in which only the quote and the backslash must be escaped.
func writeQuoted(b *strings.Builder, s string) {
	b.WriteByte('"')
	done := 0
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b.WriteString(s[done:i])
			b.WriteByte('\\')
			done = i
		}
	}
	b.WriteString(s[done:])
	b.WriteByte('"')
}

func payloadArray(rows []Row) any {
	size := 0
	for i := range rows {
		size += len(rows[i].Payload)
	}
	return array(rows, hex.EncodedLen(size)/len(rows)+len(`"\\x"`)+1, func(r *Row) bool { return r.Payload != nil },
		func(b *strings.Builder, r *Row) {
			if r.Payload == nil {
				b.WriteString("NULL")
				return
			}
			b.WriteString(`"\\x`)
			writeHex(b, r.Payload)
			b.WriteByte('"')
		})
}

func writeHex(b *strings.Builder, p []byte) {
	var space [512]byte
	for len(p) > 0 {
		n := min(len(p), hex.DecodedLen(len(space)))
		b.Write(space[:hex.Encode(space[:], p[:n])])
		p = p[n:]
	}
}

func timeArray(rows []Row, at func(*Row) time.Time) any {
	return array(rows, len(time.RFC3339Nano), func(r *Row) bool { return !at(r).IsZero() },
		func(b *strings.Builder, r *Row) {
			if at(r).IsZero() {
				b.WriteString("NULL")
				return
			}
			var space [len(time.RFC3339Nano)]byte
			b.Write(at(r).AppendFormat(space[:0], time.RFC3339Nano))
		})
}

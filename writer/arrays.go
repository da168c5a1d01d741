package writer

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// arraysSelect returns the SELECT that turns an array for each column into rows. payload returns the expression for the
// payload column's value from a bytea.
//
// Set-returning functions in a select list run in lockstep, and shorter ones are padded with NULL (PostgreSQL
// documentation, "SQL Functions Returning Sets"), so a column that no row uses is a NULL array. They stream, while FROM
// unnest(a, b, ...) stores the elements of each array first. IDs and headers are arrays of text with a cast, because some
// drivers do not ask the server for parameter types. The payloads are one bytea, because parsing an array's text reads each
// byte several times.
func arraysSelect(payload func(bytea string) string) string {
	return `
SELECT event_id::uuid, aggregate_type, aggregate_id, event_type, NULLIF(tenant_id, ''), NULLIF(topic, ''), ` +
		`NULLIF(partition_key, ''), content_type, NULLIF(schema_id, ''), NULLIF(schema_version, 0), NULLIF(headers, '')::jsonb, ` +
		payload(`substring($12::bytea, payload_at, NULLIF(payload_size, -1))`) + `, occurred_at, COALESCE(created_at, now())
FROM (SELECT unnest($1::text[]) AS event_id, unnest($2::text[]) AS aggregate_type, unnest($3::text[]) AS aggregate_id, ` +
		`unnest($4::text[]) AS event_type, unnest($5::text[]) AS tenant_id, unnest($6::text[]) AS topic, ` +
		`unnest($7::text[]) AS partition_key, unnest($8::text[]) AS content_type, unnest($9::text[]) AS schema_id, ` +
		`unnest($10::int[]) AS schema_version, unnest($11::text[]) AS headers, unnest($13::timestamptz[]) AS occurred_at, ` +
		`unnest($14::timestamptz[]) AS created_at, unnest($15::int[]) AS payload_at, unnest($16::int[]) AS payload_size) AS e`
}

// joinPayloads returns the concatenated payloads of rows, and for each row the first byte of its payload, from 1, and its
// length, -1 for NULL.
func joinPayloads(rows []row) (joined []byte, at, size []int32) {
	total := 0
	for i := range rows {
		total += len(rows[i].Payload)
	}
	joined, at, size = make([]byte, 0, total), make([]int32, len(rows)), make([]int32, len(rows))
	for i := range rows {
		at[i], size[i] = int32(len(joined)+1), int32(len(rows[i].Payload))
		if rows[i].Payload == nil {
			size[i] = -1
		}
		joined = append(joined, rows[i].Payload...)
	}
	return joined, at, size
}

// arrays returns the arguments of the INSERT with arraysSelect: an array for each column, in the order of row's fields, with the
// first result of joinPayloads in place of payloads ($12), and the two others at the end. "", 0 and NULL arrays mean NULL. All
// are text (PostgreSQL documentation, "Array Input and Output Syntax"), which
// every driver sends unchanged.
func arrays(rows []row) []any {
	payloads, at, size := joinPayloads(rows)
	return []any{
		array(rows, hex.EncodedLen(len(rows[0].EventID)), func(*row) bool { return true }, writeID),
		textArray(rows, func(r *row) string { return r.AggregateType }),
		textArray(rows, func(r *row) string { return r.AggregateID }),
		textArray(rows, func(r *row) string { return r.EventType }),
		textArray(rows, func(r *row) string { return r.TenantID }),
		textArray(rows, func(r *row) string { return r.Topic }),
		textArray(rows, func(r *row) string { return r.PartitionKey }),
		textArray(rows, func(r *row) string { return r.ContentType }),
		textArray(rows, func(r *row) string { return r.SchemaID }),
		array(rows, len("0"), func(r *row) bool { return r.SchemaVersion != 0 },
			func(b *strings.Builder, r *row) { writeInt(b, r.SchemaVersion) }),
		textArray(rows, func(r *row) string { return r.Headers }),
		payloads,
		timeArray(rows, func(r *row) time.Time { return r.OccurredAt }),
		timeArray(rows, func(r *row) time.Time { return r.CreatedAt }),
		array(at, len("1234567"), func(*int32) bool { return true }, func(b *strings.Builder, i *int32) { writeInt(b, *i) }),
		array(size, len("1234"), func(*int32) bool { return true }, func(b *strings.Builder, i *int32) { writeInt(b, *i) }),
	}
}

// array returns an array of what write adds for each row, or nil if no row has a value. size is the approximate length of
// an element.
func array[T any](rows []T, size int, has func(*T) bool, write func(*strings.Builder, *T)) any {
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

func textArray(rows []row, text func(*row) string) any {
	size := 0
	for i := range rows {
		size += len(text(&rows[i]))
	}
	return array(rows, size/len(rows)+3, func(r *row) bool { return text(r) != "" },
		func(b *strings.Builder, r *row) { writeQuoted(b, text(r)) })
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

// writeID writes a UUID without hyphens.
func writeID(b *strings.Builder, r *row) {
	var space [2 * len(r.EventID)]byte
	hex.Encode(space[:], r.EventID[:])
	b.Write(space[:])
}

func writeInt(b *strings.Builder, i int32) {
	var space [len("-2147483648")]byte
	b.Write(strconv.AppendInt(space[:0], int64(i), 10))
}

func timeArray(rows []row, at func(*row) time.Time) any {
	return array(rows, len(time.RFC3339Nano), func(r *row) bool { return !at(r).IsZero() },
		func(b *strings.Builder, r *row) {
			if at(r).IsZero() {
				b.WriteString("NULL")
				return
			}
			var space [len(time.RFC3339Nano)]byte
			b.Write(at(r).AppendFormat(space[:0], time.RFC3339Nano))
		})
}

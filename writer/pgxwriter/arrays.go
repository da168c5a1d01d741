package pgxwriter

import (
	"time"

	"github.com/cdc-relay/cdc-relay/writer"
)

// insertMany returns the INSERT of as many rows as the longest of its arrays has elements.
//
// Set-returning functions in a select list run side by side, and the shorter ones are filled up with NULL
// (PostgreSQL documentation, "SQL Functions Returning Sets"): a column that no row uses is a NULL array.
// They stream, where FROM unnest(a, b, ...) stores the elements of each array first. Ids and headers are
// arrays of text with a cast, because the modes that do not ask the server for the types know no others.
func insertMany(w *writer.Writer) string {
	return `INSERT INTO ` + w.Table() + ` (event_id, aggregate_type, aggregate_id, event_type, tenant_id, topic, partition_key, ` +
		`content_type, schema_id, schema_version, headers, payload, occurred_at, created_at)
SELECT event_id::uuid, aggregate_type, aggregate_id, event_type, NULLIF(tenant_id, ''), NULLIF(topic, ''), ` +
		`NULLIF(partition_key, ''), content_type, NULLIF(schema_id, ''), NULLIF(schema_version, 0), ` +
		`NULLIF(headers, '')::jsonb, ` + w.PayloadSQL("payload") + `, occurred_at, COALESCE(created_at, now())
FROM (SELECT unnest($1::text[]) AS event_id, unnest($2::text[]) AS aggregate_type, unnest($3::text[]) AS aggregate_id, ` +
		`unnest($4::text[]) AS event_type, unnest($5::text[]) AS tenant_id, unnest($6::text[]) AS topic, ` +
		`unnest($7::text[]) AS partition_key, unnest($8::text[]) AS content_type, unnest($9::text[]) AS schema_id, ` +
		`unnest($10::int[]) AS schema_version, unnest($11::text[]) AS headers, unnest($12::bytea[]) AS payload, ` +
		`unnest($13::timestamptz[]) AS occurred_at, unnest($14::timestamptz[]) AS created_at) AS e`
}

// arrays returns the arguments of insertMany.
func arrays(rows []writer.Row) []any {
	return []any{
		column(rows, func(r *writer.Row) (string, bool) { return r.EventID.String(), true }),
		column(rows, func(r *writer.Row) (string, bool) { return r.AggregateType, true }),
		column(rows, func(r *writer.Row) (string, bool) { return r.AggregateID, true }),
		column(rows, func(r *writer.Row) (string, bool) { return r.EventType, true }),
		column(rows, func(r *writer.Row) (string, bool) { return r.TenantID, r.TenantID != "" }),
		column(rows, func(r *writer.Row) (string, bool) { return r.Topic, r.Topic != "" }),
		column(rows, func(r *writer.Row) (string, bool) { return r.PartitionKey, r.PartitionKey != "" }),
		column(rows, func(r *writer.Row) (string, bool) { return r.ContentType, true }),
		column(rows, func(r *writer.Row) (string, bool) { return r.SchemaID, r.SchemaID != "" }),
		column(rows, func(r *writer.Row) (int32, bool) { return r.SchemaVersion, r.SchemaVersion != 0 }),
		column(rows, func(r *writer.Row) (string, bool) { return r.Headers, r.Headers != "" }),
		column(rows, func(r *writer.Row) ([]byte, bool) { return r.Payload, r.Payload != nil }), // nil is NULL to pgx
		column(rows, func(r *writer.Row) (time.Time, bool) { return r.OccurredAt, true }),
		column(rows, func(r *writer.Row) (*time.Time, bool) { return &r.CreatedAt, !r.CreatedAt.IsZero() }), // nil is NULL
	}
}

// column returns the values of one column, zero where get says that the row has none, or an untyped nil,
// which is a NULL array, where no row has one.
func column[T any](rows []writer.Row, get func(*writer.Row) (T, bool)) any {
	var values []T
	for i := range rows {
		value, ok := get(&rows[i])
		if !ok {
			continue
		}
		if values == nil {
			values = make([]T, len(rows))
		}
		values[i] = value
	}
	if values == nil {
		return nil
	}
	return values
}

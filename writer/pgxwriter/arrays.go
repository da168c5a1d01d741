package pgxwriter

import (
	"time"

	"github.com/cdc-relay/cdc-relay/writer"
)

// arrays returns the arguments of writer.Writer's InsertArrays as types of pgx.
func arrays(rows []writer.Row) []any {
	payloads, at, size := writer.JoinPayloads(rows)
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
		payloads,
		column(rows, func(r *writer.Row) (time.Time, bool) { return r.OccurredAt, true }),
		column(rows, func(r *writer.Row) (*time.Time, bool) { return &r.CreatedAt, !r.CreatedAt.IsZero() }), // nil is NULL
		at, size,
	}
}

// column returns the values of one column, zero for rows without a value. If no row has a value it returns an untyped nil,
// which is a NULL array.
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

package writer

import (
	"strconv"
	"strings"
)

// maxRows is how many rows one INSERT holds at most.
const maxRows = 4096

// maxValues is how many of them it holds as VALUES, with a parameter for each value. Beyond, it is an array
// for each column: dearer to begin with and cheaper by the row, far cheaper where a driver (lib/pq) has the
// server parse and plan the statement each time. It also bounds what prepared statements cost the server,
// one for each text and some kilobytes for each row of VALUES.
const maxValues = 8

// postgres makes the statements of [Postgres].
type postgres struct {
	values [maxValues + 1]string // the INSERT of as many rows, from 1, as VALUES
	arrays string                // the INSERT of any number of rows, see InsertArrays
}

func newPostgres(table string, payload func(bytea string) string) *postgres {
	insert := "INSERT INTO " + table + " (event_id, aggregate_type, aggregate_id, event_type, tenant_id, topic, " +
		"partition_key, content_type, schema_id, schema_version, headers, payload, occurred_at, created_at)"
	p := &postgres{arrays: insert + arraysSelect(payload)}
	separator := " VALUES "
	p.values[0] = insert
	for n := range maxValues {
		p.values[n+1] = p.values[n] + separator + rowValues(n*columnCount, payload)
		separator = ", "
	}
	return p
}

// columnCount is how many parameters a row of VALUES takes.
const columnCount = 14

// rowValues returns a row of VALUES whose first parameter is the one after the given.
func rowValues(parameter int, payload func(bytea string) string) string {
	var values [columnCount]string
	for i := range values {
		values[i] = "$" + strconv.Itoa(parameter+i+1)
	}
	// Without the cast, the simple protocol would put the payload's hex text into a column of text.
	values[11] = payload(values[11] + "::bytea")
	values[13] = "COALESCE(" + values[13] + ", now())"
	return "(" + strings.Join(values[:], ", ") + ")"
}

// insert returns the INSERT of 1 to maxRows rows. Its text is one of nine.
func (p *postgres) insert(rows []Row) (query string, args []any) {
	if len(rows) > maxValues {
		return p.arrays, arrays(rows)
	}
	args = make([]any, 0, len(rows)*columnCount)
	for i := range rows {
		args = appendArgs(args, &rows[i])
	}
	return p.values[len(rows)], args
}

// InsertOne returns the INSERT of one row, always the same text, and its arguments, of types that every
// driver of database/sql takes. It is for adapters.
func (w *Writer) InsertOne(row Row) (query string, args []any) {
	return w.sql.values[1], appendArgs(make([]any, 0, columnCount), &row)
}

// InsertMany returns the INSERT of a chunk of rows, one of nine texts, and its arguments, of types that
// every driver of database/sql takes. It is for adapters.
func (w *Writer) InsertMany(rows []Row) (query string, args []any) { return w.sql.insert(rows) }

// payloadSQL returns the expression that turns a bytea into what the payload column holds.
func (w *Writer) payloadSQL(bytea string) string {
	switch w.payload {
	case PayloadText:
		return "convert_from(" + bytea + ", 'UTF8')"
	case PayloadJSONB:
		return "convert_from(" + bytea + ", 'UTF8')::jsonb"
	case PayloadBytea:
	}
	return bytea
}

// appendArgs appends the arguments of a row of VALUES.
func appendArgs(args []any, r *Row) []any {
	var contentType, version, payload, created any = contentTypeJSON, nil, nil, nil
	if r.ContentType != contentTypeJSON { // the constant costs no allocation
		contentType = r.ContentType
	}
	if r.SchemaVersion != 0 {
		version = int64(r.SchemaVersion)
	}
	if r.Payload != nil {
		payload = r.Payload
	}
	if !r.CreatedAt.IsZero() {
		created = r.CreatedAt
	}
	return append(args,
		r.EventID.String(), r.AggregateType, r.AggregateID, r.EventType,
		nullText(r.TenantID), nullText(r.Topic), nullText(r.PartitionKey), contentType,
		nullText(r.SchemaID), version, nullText(r.Headers), payload, r.OccurredAt, created)
}

func nullText(s string) any {
	if s == "" {
		return nil
	}
	return s
}

package writer

import (
	"math/bits"
	"strconv"
	"strings"
	"sync"
)

// maxRows is how many rows one INSERT holds at most.
const maxRows = 4096

// maxValues is how many of them it holds as VALUES, with a parameter for each value. Beyond, it is an array
// for each column: dearer to begin with and cheaper by the row, far cheaper where a driver (lib/pq) has the
// server parse and plan the statement each time. It also bounds what prepared statements cost the server,
// some kilobytes for each row of VALUES.
const maxValues = 64

const columnCount = 14

// postgresColumns returns the columns of the table, with the type that their parameters are cast to where
// PostgreSQL cannot tell it by their place.
func postgresColumns() [columnCount]struct{ name, cast string } {
	return [columnCount]struct{ name, cast string }{
		{"event_id", "::uuid"},
		{"aggregate_type", "::text"},
		{"aggregate_id", "::text"},
		{"event_type", "::text"},
		{"tenant_id", "::text"},
		{"topic", "::text"},
		{"partition_key", "::text"},
		{"content_type", "::text"},
		{"schema_id", "::text"},
		{"schema_version", "::int"},
		{"headers", "::jsonb"},
		{"payload", "::bytea"},
		{"occurred_at", "::timestamptz"},
		{"created_at", "::timestamptz"},
	}
}

// postgres makes the statements of [Postgres].
type postgres struct {
	names  string   // the columns
	insert string   // INSERT INTO table (columns)
	values string   // the columns, as the SELECT of the INSERT of many rows gives them
	one    string   // the INSERT of one row
	arrays string   // the INSERT of any number of rows, see InsertArrays
	texts  sync.Map // rows of a statement (int) to its text (string)
}

func newPostgres(table string, payload func(bytea string) string) *postgres {
	var names, parameters, values [columnCount]string
	for i, c := range postgresColumns() {
		names[i], values[i] = c.name, c.name
		parameters[i] = "$" + strconv.Itoa(i+1)
		switch c.name {
		case "payload":
			// Without the cast, the simple protocol would put the bytes' hex text into a column of text.
			parameters[i], values[i] = payload(parameters[i]+c.cast), payload(c.name)
		case "created_at":
			parameters[i], values[i] = "COALESCE("+parameters[i]+", now())", "COALESCE("+c.name+", now())"
		}
	}
	p := &postgres{names: strings.Join(names[:], ", "), values: strings.Join(values[:], ", ")}
	p.insert = "INSERT INTO " + table + " (" + p.names + ")"
	p.one = p.insert + " VALUES (" + strings.Join(parameters[:], ", ") + ")"
	p.arrays = p.insert + arraysSelect(payload("payload"))
	return p
}

// many returns a statement for 1 to maxRows rows. Its text is one of 21. As VALUES it takes a few more rows
// than asked for, and rows without an id, which the arguments are filled up with, are not inserted.
func (p *postgres) many(rows []Row) (query string, args []any) {
	if len(rows) > maxValues {
		return p.arrays, arrays(rows)
	}
	n := statementRows(len(rows))
	args = make([]any, 0, n*columnCount)
	for i := range rows {
		args = appendArgs(args, &rows[i])
	}
	return p.text(n), args[:n*columnCount]
}

// statementRows rounds a number of rows up to a quarter of the power of two below it: 1 to 8, 10, 12, 14,
// 16, 20, ... Each text is a prepared statement of its own in drivers that cache them, so they must be few.
func statementRows(n int) int {
	if n <= 8 {
		return n
	}
	step := 1 << (bits.Len(uint(n-1)) - 3)
	return (n + step - 1) / step * step
}

func (p *postgres) text(rows int) string {
	if rows == 1 {
		return p.one
	}
	if text, ok := p.texts.Load(rows); ok {
		return text.(string)
	}
	text := p.manyText(rows)
	p.texts.Store(rows, text)
	return text
}

// manyText: the casts in the first row give the parameters of every row their types.
func (p *postgres) manyText(rows int) string {
	var b strings.Builder
	b.WriteString(p.insert + " SELECT " + p.values + " FROM (VALUES ")
	parameter := 1
	for row := range rows {
		separator := "("
		if row > 0 {
			separator = ", ("
		}
		for _, c := range postgresColumns() {
			b.WriteString(separator + "$" + strconv.Itoa(parameter))
			if row == 0 {
				b.WriteString(c.cast)
			}
			separator = ","
			parameter++
		}
		b.WriteByte(')')
	}
	b.WriteString(") AS e (" + p.names + ") WHERE event_id IS NOT NULL")
	return b.String()
}

// InsertOne returns the INSERT of one row, always the same text, and its arguments, of types that every
// driver of database/sql takes. It is for adapters.
func (w *Writer) InsertOne(row Row) (query string, args []any) {
	return w.sql.one, appendArgs(make([]any, 0, columnCount), &row)
}

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

// Table returns the table's name as SQL reads it. It is for adapters.
func (w *Writer) Table() string { return w.table }

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

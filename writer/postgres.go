package writer

import (
	"strconv"
	"strings"
)

// maxValues is how many of them it holds as VALUES, with a parameter for each value. Beyond, it is an array
// for each column: dearer to begin with and cheaper by the row, far cheaper where a driver (lib/pq) has the
// server parse and plan the statement each time. It also bounds what prepared statements cost the server,
// one for each text and some kilobytes for each row of VALUES.
const maxValues = 8

// postgres builds the statements of [Postgres].
type postgres struct {
	values [maxValues + 1]string // the INSERT of that many rows as VALUES
	arrays string                // the INSERT of any number of rows, with arraysSelect
}

func newPostgres(w *Writer) *postgres {
	insert, conflict := insertInto(w.table), ""
	if w.onDuplicate == SkipDuplicate {
		conflict = " ON CONFLICT DO NOTHING" // a conflict target would need the right to SELECT
	}
	p := &postgres{arrays: insert + arraysSelect(w.payloadSQL) + conflict}
	separator := " VALUES "
	p.values[0] = insert
	for n := range maxValues {
		p.values[n+1] = p.values[n] + separator + rowValues(n*columnCount, w.payloadSQL)
		separator = ", "
	}
	for n := range p.values {
		p.values[n] += conflict
	}
	return p
}

// rowValues returns a row of VALUES whose first parameter is the one after the given number.
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

func (p *postgres) one(r row) (query string, args []any) {
	return p.values[1], appendArgs(make([]any, 0, columnCount), &r)
}

// many returns one of nine texts.
func (p *postgres) many(rows []row) (query string, args []any) {
	if len(rows) > maxValues {
		return p.arrays, arrays(rows)
	}
	args = make([]any, 0, len(rows)*columnCount)
	for i := range rows {
		args = appendArgs(args, &rows[i])
	}
	return p.values[len(rows)], args
}

// payloadSQL returns the expression that converts a bytea to the payload column's type.
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
func appendArgs(args []any, r *row) []any {
	var payload, created any
	if r.Payload != nil {
		payload = r.Payload
	}
	if !r.CreatedAt.IsZero() {
		created = r.CreatedAt
	}
	return append(appendTexts(append(args, r.EventID.String()), r), payload, r.OccurredAt, created)
}

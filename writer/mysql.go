package writer

import (
	"encoding/hex"
	"strings"
)

// maxMySQLText is the length in characters of the text columns that 'cdc-relay schema print' creates. Without strict
// sql_mode the server would truncate longer text, with a warning that no driver reports.
const maxMySQLText = 255

// mysqlRow is a row of VALUES. The ID is sent as hex, because MySQL's information_schema.processlist fails while a running
// statement contains bytes that are not text.
const mysqlRow = "(UNHEX(?), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, COALESCE(?, UTC_TIMESTAMP(6)))"

// mysql builds the statements of [MySQL] and [MariaDB].
//
// They are plain VALUES. The server's max_allowed_packet limits the size of a statement, by default to 16 MiB on MariaDB
// and 64 MiB on MySQL and in the driver. If the driver interpolates arguments (interpolateParams), the 4 MiB of
// maxChunkBytes become at most 8, because each byte may need a backslash.
type mysql struct {
	begin string // up to and including the first row
	end   string // after the last row
	alone string // the INSERT of one row
	text  bool   // the payload column is text
}

func newMySQL(w *Writer) *mysql {
	m := &mysql{begin: insertInto(w.table) + " VALUES " + mysqlRow, text: w.payload != PayloadBytea}
	if w.onDuplicate == SkipDuplicate {
		// INSERT IGNORE would ignore other errors too. An update that changes nothing is not logged.
		m.end = " ON DUPLICATE KEY UPDATE event_id = event_id"
	}
	m.alone = m.begin + m.end
	return m
}

func (m *mysql) one(r row) (query string, args []any) {
	return m.alone, m.appendArgs(make([]any, 0, columnCount), &r)
}

func (m *mysql) many(rows []row) (query string, args []any) {
	args = make([]any, 0, len(rows)*columnCount)
	for i := range rows {
		args = m.appendArgs(args, &rows[i])
	}
	return m.begin + strings.Repeat(", "+mysqlRow, len(rows)-1) + m.end, args
}

// appendArgs appends the arguments of a row of VALUES. Times are sent as text in UTC, because the driver converts a
// time.Time according to loc in its DSN, and DATETIME has no time zone.
func (m *mysql) appendArgs(args []any, r *row) []any {
	var payload, created any
	switch {
	case r.Payload == nil:
	case m.text: // bytes would be a binary string, which a JSON column refuses
		payload = string(r.Payload)
	default:
		payload = r.Payload
	}
	const layout = "2006-01-02 15:04:05.000000"
	var space [2 * len(layout)]byte
	times := string(r.CreatedAt.AppendFormat(r.OccurredAt.AppendFormat(space[:0], layout), layout))
	if !r.CreatedAt.IsZero() {
		created = times[len(layout):]
	}
	return append(appendTexts(append(args, hex.EncodeToString(r.EventID[:])), r), payload, times[:len(layout)], created)
}

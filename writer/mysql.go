package writer

import (
	"encoding/hex"
	"strings"
)

// maxMySQLText is how many characters the text columns hold, as 'cdc-relay schema print' makes them. Without
// strict sql_mode the server would cut what is longer, with a warning that no driver shows.
const maxMySQLText = 255

// mysqlRow is a row of VALUES. The id goes as hex, because statements that run are shown as text: MySQL's
// information_schema.processlist fails for everybody while one holds bytes that are none.
const mysqlRow = "(UNHEX(?), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, COALESCE(?, UTC_TIMESTAMP(6)))"

// mysql makes the statements of [MySQL] and [MariaDB].
//
// They are plain VALUES. The size of a statement is bounded by the server's max_allowed_packet, of 16 MiB by
// default on MariaDB and 64 MiB on MySQL and in the driver: the 4 MiB of maxChunkBytes are 8 at worst where
// the driver writes arguments into the text (interpolateParams), because each byte may need a backslash.
type mysql struct {
	begin string // up to and with the first row
	end   string // behind the last row
	alone string // of one row
	text  bool   // the payload column holds text
}

func newMySQL(w *Writer) *mysql {
	m := &mysql{begin: insertInto(w.table) + " VALUES " + mysqlRow, text: w.payload != PayloadBytea}
	if w.onDuplicate == SkipDuplicate {
		// INSERT IGNORE would ignore other errors too. A row set to what it is does not reach the binlog.
		m.end = " ON DUPLICATE KEY UPDATE event_id = event_id"
	}
	m.alone = m.begin + m.end
	return m
}

func (m *mysql) one(row Row) (query string, args []any) {
	return m.alone, m.appendArgs(make([]any, 0, columnCount), &row)
}

func (m *mysql) many(rows []Row) (query string, args []any) {
	args = make([]any, 0, len(rows)*columnCount)
	for i := range rows {
		args = m.appendArgs(args, &rows[i])
	}
	return m.begin + strings.Repeat(", "+mysqlRow, len(rows)-1) + m.end, args
}

// appendArgs appends the arguments of a row of VALUES. Times go as text in UTC: what the driver makes of a
// time.Time depends on loc in its DSN, and DATETIME has no time zone.
func (m *mysql) appendArgs(args []any, r *Row) []any {
	var payload, created any
	switch {
	case r.Payload == nil:
	case m.text: // bytes would be a binary string, which a JSON column does not take
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

package binlog

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/go-mysql-org/go-mysql/replication"
)

// A statement that changes data and is logged in place of rows comes from a session whose binlog_format is not ROW. The
// event does not tell which rows it changed: its triggers, its views and the functions that it calls may write to any
// table. The rules:
//
//  1. With binlog_format = ROW only DDL and the marks of a transaction are logged as statements. Any other statement
//     changes data, whatever its first word is; see changesData.
//  2. MySQL lists the databases of all tables that a statement used, also by triggers and functions. If none of ours is
//     listed, it has written nothing to an outbox. MariaDB has no such list.
//  3. A statement that names all tables that it touches passes if the relay may look up that they hold no trigger and no
//     view, and if the binlog shows that this was so when the statement ran; see harmless.
//  4. A statement on a table that Amazon RDS keeps for itself (mysql.rds_…) passes without that: triggers in the schema
//     mysql are not allowed.
//  5. Any other statement stops the relay when its transaction commits.

// changes returns the first word of a statement that changes data, "" of any other. Whether executable comments were
// executed is not known everywhere, so both readings count. Where strings may end elsewhere, any word may be part of
// a query.
func (ss *session) changes(q *replication.QueryEvent) string {
	text := string(q.Query)
	oddStrings := strings.ContainsFunc(text, func(c rune) bool { return c == '\\' || c >= 0x80 }) && !ss.plainMode(q.StatusVars)
	for _, executed := range []bool{true, false} {
		words := wordsOf(text, executed)
		if kind := changesData(words, ss.tx.begun); kind != "" {
			return kind
		}
		if oddStrings && len(words) > 0 && words[0] == "create" &&
			holdsQuery(strings.FieldsFunc(strings.ToLower(text), func(c rune) bool { return c < 'a' || c > 'z' })) {
			return words[0]
		}
	}
	return ""
}

// changesData returns the first word of a statement that changes data; "" of DDL and of what changes nothing.
// begun: it stands in a transaction behind BEGIN, where DDL is rare, and not by itself.
func changesData(words []string, begun bool) string {
	if len(words) > 1 && words[0] == "set" && words[1] == "statement" { // MariaDB: SET STATEMENT … FOR the statement
		if i := slices.Index(words, "for"); i >= 0 {
			words = words[i+1:]
		}
	}
	if len(words) == 0 { // a comment, such as a dummy event
		return ""
	}
	switch word := words[0]; word {
	case "create":
		if createsFrom(words) {
			return word
		}
		return ""
	case "analyze": // MariaDB's ANALYZE UPDATE updates
		if len(words) > 1 && slices.Contains([]string{"table", "tables", "local", "no_write_to_binlog"}, words[1]) {
			return ""
		}
		return word
	case "alter", "drop", "truncate", "rename", "grant", "revoke", "flush", "optimize", "repair", "check", "install", "uninstall":
		return ""
	case "insert", "replace", "update", "delete", "load", "with", "select", "do", "call", "values", "table", "handler", "execute":
		return word
	default:
		if begun {
			return word
		}
		return ""
	}
}

// createsFrom reports whether a CREATE TABLE fills the table from a query, which may call functions. With
// binlog_format = ROW the server logs it without the query.
func createsFrom(words []string) bool {
	i := slices.Index(words, "table")
	if i < 0 || i > 4 || slices.ContainsFunc(words[1:i], func(w string) bool { return w != "or" && w != "replace" && w != "temporary" }) {
		return false
	}
	return slices.Contains(words[i+1:], "table") || holdsQuery(words[i+1:])
}

// holdsQuery: VALUES is also part of a partition's definition.
func holdsQuery(words []string) bool {
	for i, word := range words {
		if word == "select" || word == "values" && (i+1 == len(words) || words[i+1] != "less" && words[i+1] != "in") {
			return true
		}
	}
	return false
}

// statement notes one that changes data and may have written to an outbox table. what is nil if it is known that nobody can
// say which tables it touched.
func (ss *session) statement(ctx context.Context, variables []byte, kind string, what *touched) error {
	if databases, known := usedDatabases(variables); known && !ss.src.hasTableIn(databases) {
		return nil
	}
	var first string // what to try before the rest
	if what != nil && ss.tx.unread == nil {
		harmless, rights, err := ss.harmless(ctx, *what)
		if err != nil || harmless {
			return err
		}
		if rights != "" {
			first = rights + ", so that the relay can look up whether the statement may have written to an outbox, and start it again; if it still stops here, "
		}
	}
	err := content("statement_format", first+"have the session's binlog_format changed (SET SESSION binlog_format = ROW, or reconnect)",
		"a statement (%s) is in the binlog in place of rows, so what it, its triggers and functions have written to %s is not there: binlog_format of the session that ran it was not ROW",
		strings.ToUpper(kind), strings.Join(ss.src.opts.Tables, ", "))
	if !ss.tx.begun {
		return err
	}
	if ss.tx.unread == nil { // the first names the rights that lack
		ss.tx.unread = err
	}
	return nil
}

// touchedBy returns nil if it is not known what the statement touches.
func (ss *session) touchedBy(q *replication.QueryEvent) *touched {
	if t, known := touchedBy(string(q.Query), string(q.Schema)); known && ss.plainMode(q.StatusVars) {
		return &t
	}
	return nil
}

// hasTableIn reports whether a configured table is in one of the databases.
func (s *Source) hasTableIn(databases []string) bool {
	return slices.ContainsFunc(s.opts.Tables, func(name string) bool {
		database, _, _ := strings.Cut(name, ".")
		return slices.ContainsFunc(databases, func(d string) bool { return strings.EqualFold(d, database) })
	})
}

// The kinds of status variables that may stand before the databases, by what follows the byte of the kind; source:
// libs/mysql/binlog/event/statement_events.h.
const (
	statusDatabases   = 12  // their number, and each with a zero behind it
	tooManyDatabases  = 254 // so they are not listed
	statusInvoker     = 11  // two texts
	statusCatalog     = 2   // a text and a zero
	statusTimeZone    = 5   // a text
	statusCatalogNZ   = 6   // a text
	statusCollations  = 131 // of MariaDB 11.2 and newer: their number, and each in four bytes
	statusMode        = 1   // sql_mode
	statusCharsets    = 4   // of the client, and more
	statusUnknownSize = -1
)

// statusSize is how many bytes of a fixed number follow.
func statusSize(kind byte) int {
	switch kind {
	case 0, 10: // flags, the length on the first server
		return 4
	case statusMode, 9: // sql_mode, tables of an update
		return 8
	case 3: // auto_increment
		return 4
	case statusCharsets:
		return 6
	case 7, 8: // the names of months, the database's collation
		return 2
	case 13: // microseconds
		return 3
	}
	return statusUnknownSize
}

// usedDatabases reads the databases that MySQL lists in a statement's status variables.
func usedDatabases(vars []byte) (names []string, known bool) {
	eachStatus(vars, func(kind byte, value []byte) {
		if kind == statusDatabases {
			names, known = databasesIn(value[0], value[1:])
		}
	})
	return names, known
}

// eachStatus calls f for the variables up to the databases, which are last and come with all that follows, or up to one that is
// not known.
func eachStatus(vars []byte, f func(kind byte, value []byte)) {
	for len(vars) > 1 {
		kind := vars[0]
		size := statusSize(kind)
		switch kind {
		case statusDatabases:
			size = len(vars) - 1
		case statusCatalog:
			size = int(vars[1]) + 2
		case statusTimeZone, statusCatalogNZ:
			size = int(vars[1]) + 1
		case statusCollations:
			size = 4*int(vars[1]) + 1
		case statusInvoker:
			size = int(vars[1]) + 1
			if size+1 < len(vars) {
				size += int(vars[1+size]) + 1
			}
		}
		if size < 0 || 1+size > len(vars) {
			return
		}
		f(kind, vars[1:1+size])
		vars = vars[1+size:]
	}
}

func databasesIn(count byte, list []byte) (names []string, known bool) {
	if count == 0 || count == tooManyDatabases {
		return nil, false
	}
	for range count {
		name, rest, found := bytes.Cut(list, []byte{0})
		if !found || len(name) == 0 {
			return nil, false
		}
		names, list = append(names, string(name)), rest
	}
	return names, true
}

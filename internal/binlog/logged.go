package binlog

import (
	"bytes"
	"context"
	"slices"
	"strings"
)

// A statement that changes data and stands in the log in place of rows comes from a session whose binlog_format is
// not ROW. What it wrote nobody can read from it: its triggers, its views and the functions that it calls may write
// to any table. So the rule is about the server's word and not about the statement's text:
//
//  1. With binlog_format = ROW nothing but DDL and the marks of a transaction stands in the log as a statement.
//     Whatever else stands there changes data, whatever its first word is; see changesData.
//  2. MySQL lists the databases of all tables that a statement used, also by triggers and functions. One that used
//     none of ours has written nothing to an outbox. MariaDB has no such list.
//  3. Statements on the tables that Amazon RDS keeps for itself (mysql.rds_…) have no triggers: nobody may make one
//     in the schema mysql.
//  4. A statement that names all that it touches passes if the relay may look up that this holds no trigger and no view,
//     and if the binlog shows that this was so when it ran; see harmless.
//  5. Any other one stops the relay when its transaction commits.

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
	rest := words[i+1:]
	for i, word := range rest {
		if word == "select" || word == "table" || word == "row" && i > 0 && rest[i-1] == "values" {
			return true
		}
	}
	return false
}

// statement notes one that changes data and may have written to an outbox table. what is nil if it is known that nobody can
// say which tables it touched.
func (ss *session) statement(ctx context.Context, variables []byte, words []string, kind string, what *touched) error {
	if databases, known := usedDatabases(variables); known && !ss.src.hasTableIn(databases) || servicesOwn(words) {
		return nil
	}
	var first string // what to try before the rest
	if what != nil && ss.tx.unread == nil {
		v, err := ss.harmless(ctx, *what)
		if err != nil || v.harmless {
			return err
		}
		first = v.first
	}
	err := content("statement_format", first+"have the session's binlog_format changed (SET SESSION binlog_format = ROW, or connect anew), publish from the outbox table what the statement wrote",
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

// servicesOwn reports a statement on a table that Amazon RDS keeps for itself and logs so.
func servicesOwn(words []string) bool {
	if len(words) < 4 || !slices.Contains([]string{"insert", "replace", "update", "delete"}, words[0]) {
		return false
	}
	i := 1
	if words[i] == "into" || words[i] == "from" {
		i++
	}
	return strings.Trim(words[i], "`") == "mysql" && strings.HasPrefix(strings.Trim(words[i+1], "`"), "rds_")
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

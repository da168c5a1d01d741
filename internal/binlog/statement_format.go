package binlog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/sqltext"
)

// A statement that changes data and is logged in place of rows comes from a session whose binlog_format is not ROW. The
// event does not tell which rows it changed: its triggers, its views and the functions that it calls may write to any
// table. The rules:
//
//  1. With binlog_format = ROW only DDL and the marks of a transaction are logged as statements. Any other statement
//     changes data, whatever its first word is; see sqltext.Changes.
//  2. MySQL lists the databases of all tables that a statement used, also by triggers and functions. If none of ours is
//     listed, it has written nothing to an outbox. MariaDB has no such list.
//  3. A statement whose text names all tables that it touches, and that calls only functions of the server, passes if the one that it
//     changes is among harmless_tables: for these the user vouches that neither a trigger on them nor a view that such a statement reads
//     leads to an outbox. An outbox table is never among them.
//  4. So does a statement on a table that Amazon RDS keeps for itself (mysql.rds_…): triggers in the schema mysql are not allowed.
//  5. Any other statement stops the relay when its transaction commits.

// statement notes one that changes data and may have written to an outbox table. what is nil if it is known that nobody can
// say which tables it touched.
func (ss *session) statement(variables []byte, kind string, what *sqltext.Tables) error {
	if databases, known := sqltext.Databases(variables); known && !ss.src.hasTableIn(databases) {
		return nil
	}
	fix := "have the session's binlog_format changed (SET SESSION binlog_format = ROW, or reconnect)"
	if what != nil && mysql.ConfiguredName(ss.src.opts.Tables, true, what.Changed.String()) == "" {
		if what.OfRDS() || mysql.ConfiguredName(ss.src.opts.HarmlessTables, ss.src.caseless, what.Changed.String()) != "" {
			return nil
		}
		fix = fmt.Sprintf("add %s to source.mysql.harmless_tables if neither a trigger on it nor a view that is read leads to an outbox; or else %s", what.Changed, fix)
	}
	err := content("statement_format", fix,
		"a statement (%s) is in the binlog in place of rows, so what it, its triggers and functions have written to %s is not there: binlog_format of the session that ran it was not ROW",
		strings.ToUpper(kind), strings.Join(ss.src.opts.Tables, ", "))
	if !ss.tx.begun {
		return err
	}
	if ss.tx.unread == nil {
		ss.tx.unread = err
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

package binlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/statement"
)

// harmless reports whether statements on the tables cannot have written to an outbox. An answer is not made up: to
// the relay's user a server shows only what it has rights on, so the rights are looked up too, and the catalog tells
// of now, so the binlog is read up to now. What a session with sql_log_bin = 0 dropped stays unknown. rights are the
// statements that grant what is missing for an answer.
func (ss *session) harmless(ctx context.Context, t statement.Tables) (harmless bool, rights string, err error) {
	if t.OfRDS() || ss.shown[t] {
		return true, "", nil
	}
	if mysql.ConfiguredName(ss.src.opts.Tables, true, t.Changed.String()) != "" {
		return false, "", nil
	}
	harmless, rights, err = ss.lookUp(ctx, t)
	ss.read = time.Now() // whatever the server sent meanwhile, we did not read
	var stop *cdc.StopError
	if err != nil && !errors.As(err, &stop) && ctx.Err() == nil {
		err = &cdc.FixableError{Cause: fmt.Errorf("find out whether a statement can have written to an outbox: %w", err), Fix: "see whether the server is well"}
	}
	if err == nil && harmless {
		ss.shown[t] = true
	}
	return harmless, rights, err
}

func (ss *session) lookUp(ctx context.Context, t statement.Tables) (harmless bool, rights string, err error) {
	s := ss.src
	db, cfg, err := mysql.Connect(ctx, &s.opts.Options)
	if err != nil {
		return false, "", err
	}
	defer func() { _ = db.Close() }()
	if plain, rights, err := s.plainTables(ctx, db, t); err != nil || !plain {
		return false, rights, err
	}
	executed, _, err := mysql.ReadGTIDs(ctx, db, s.flavor)
	if err != nil {
		return false, "", err
	}
	reached := s.received.Clone()
	reached.Add(ss.tx.id)
	if !executed.Covers(reached) {
		return false, "", fmt.Errorf("the dsn leads to a server that has not executed the statement: it has reached %s", executed)
	}
	harmless, err = ss.untouched(ctx, db, cfg, t, executed)
	return harmless, "", err
}

// plainTables reports whether the tables are tables, and no trigger is on the one that is changed. Only the right TRIGGER
// on just this table makes sure that none is hidden: rights on more may be patterns or have exceptions. SHOW CREATE
// TABLE comes last: it waits for DDL on the table, so that what the answers before it told of is in gtid_executed
// when it returns.
func (s *Source) plainTables(ctx context.Context, db *sql.DB, t statement.Tables) (plain bool, rights string, err error) {
	n := t.Changed
	if s.caseless {
		n.Database, n.Name = strings.ToLower(n.Database), strings.ToLower(n.Name)
	}
	var may, triggers bool
	err = db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM information_schema.table_privileges WHERE privilege_type = 'TRIGGER'
			AND CAST(CONCAT_WS('/', grantee, table_schema, table_name) AS BINARY) = CAST(? AS BINARY)),
		EXISTS (SELECT 1 FROM information_schema.triggers WHERE event_object_schema = ? AND event_object_table = ?)`,
		strings.ReplaceAll(s.account, "`", "'")+"/"+n.Database+"/"+n.Name, n.Database, n.Name).Scan(&may, &triggers)
	if err != nil {
		return false, "", fmt.Errorf("look up triggers: %w", err)
	}
	changed, _, err := isTable(ctx, db, t.Changed)
	if err != nil {
		return false, "", err
	}
	read, seen := true, true
	if t.Read != (statement.Table{}) {
		if read, seen, err = isTable(ctx, db, t.Read); err != nil {
			return false, "", err
		}
	}
	var grants []string
	if !may {
		grants = append(grants, "GRANT TRIGGER ON "+quoted(t.Changed)+" TO "+s.account)
	}
	if !seen {
		grants = append(grants, "GRANT SHOW VIEW ON "+quoted(t.Read)+" TO "+s.account)
	}
	return may && !triggers && changed && read, strings.Join(grants, "; "), nil
}

// isTable reads the heading under which the server prints the definition: Table, or View. seen is false if it does not, or
// has none.
func isTable(ctx context.Context, db *sql.DB, n statement.Table) (is, seen bool, err error) {
	found, err := db.QueryContext(ctx, `SHOW CREATE TABLE `+quoted(n))
	switch code, _ := mysql.ErrorNumber(err); {
	case code == gomysql.ER_TABLEACCESS_DENIED_ERROR, code == gomysql.ER_DBACCESS_DENIED_ERROR, code == gomysql.ER_NO_SUCH_TABLE, code == gomysql.ER_BAD_DB_ERROR:
		return false, false, nil
	case err != nil:
		return false, false, fmt.Errorf("look up table %s: %w", n, err)
	}
	defer func() { _ = found.Close() }()
	columns, err := found.Columns()
	if err = errors.Join(err, found.Close(), found.Err()); err != nil {
		return false, false, fmt.Errorf("look up table %s: %w", n, err)
	}
	return columns[0] == "Table", true, nil
}

func quoted(n statement.Table) string {
	return mysql.QuoteName(n.Database) + "." + mysql.QuoteName(n.Name)
}

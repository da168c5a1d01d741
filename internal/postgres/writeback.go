package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// MarkOptions name a table whose published rows are marked.
type MarkOptions struct {
	KeyedOptions

	// Pending is the condition of the rows that are marked.
	Pending string
	// Set is what becomes of them, OnDeadLetter what becomes of those whose events are dead letters.
	Set, OnDeadLetter []cdc.Assignment
}

// Marks are the rows of a table that are marked once they are published.
type Marks struct {
	keyed

	o       MarkOptions
	pending string // in brackets
}

// Marks returns the rows of a table. Verify comes first.
func (d *Database) Marks(o MarkOptions) *Marks {
	return &Marks{keyed: d.keyed(o.KeyedOptions), o: o, pending: "(" + o.Pending + "\n)"} // the condition may end with a comment
}

const describeMarks = `SELECT has_table_privilege(c.oid, 'SELECT'),
	ARRAY(SELECT unnest($2::text[]) EXCEPT SELECT attname FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY 1),
	ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attname = ANY($2) AND NOT attisdropped AND NOT has_column_privilege(c.oid, attnum, 'UPDATE') ORDER BY 1)
	FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname || '.' || relname = $1`

// Verify returns an error if rows cannot be marked, and prepares the connection.
func (m *Marks) Verify(ctx context.Context) error {
	partitioned := cdc.Fixable("remove write_back: old partitions are dropped as a whole, and need no marks", "rows of %s are not marked: it has partitions, so no index finds a row by its ID alone", m.Table)
	// Shorter than deadlock_timeout: a trigger that waits for a transaction which waits for a row is given up before that one is.
	if err := m.verify(ctx, "500ms", partitioned); err != nil {
		return err
	}
	var reads bool
	var missing, lacks []string
	err := m.db.Conn.QueryRow(ctx, describeMarks, m.Table, m.columns()).Scan(&reads, &missing, &lacks)
	switch {
	case err != nil:
		return fmt.Errorf("read table %s: %w", m.Table, err)
	case len(missing) > 0:
		return cdc.ConfigError(cdc.BadWriteBack, "correct write_back", "column %s, which write_back sets, does not exist in table %s, or is generated", missing[0], m.Table)
	case !reads || len(lacks) > 0:
		return cdc.Fixable(fmt.Sprintf("run `cdc-relay setup` with the owner's connection string, or GRANT SELECT, UPDATE ON %s TO %s", m.SQL, pgx.Identifier{m.db.Server.Role}.Sanitize()),
			"role %q may not mark rows of %s", m.db.Server.Role, m.Table)
	}
	// A relay that is frozen holds no rows for long.
	for _, setting := range []string{"SET idle_in_transaction_session_timeout = '10s'", "SET TIME ZONE 'UTC'"} {
		if err := m.db.Exec(ctx, "prepare the connection", setting); err != nil {
			return err
		}
	}
	// The condition must be one without brackets around it, too: with them others could be added.
	statements := []string{"SELECT FROM ONLY " + m.SQL + " WHERE " + m.o.Pending + "\nLIMIT 0"}
	for _, set := range [][]cdc.Assignment{m.o.Set, m.o.OnDeadLetter} {
		if text, _ := m.update(set); len(set) > 0 {
			statements = append(statements, text)
		}
	}
	for _, text := range statements {
		if _, err := m.db.Conn.Prepare(ctx, "", text); err != nil {
			return m.unfit(err)
		}
	}
	for _, set := range [][]cdc.Assignment{m.o.Set, m.o.OnDeadLetter} {
		text, values := m.update(set)
		if len(values) == 0 {
			continue
		}
		if _, err := m.db.Conn.Exec(ctx, "EXPLAIN "+text, append([]any{[]string{}}, values...)...); err != nil { // a text that is none of its type
			return m.unfit(err)
		}
	}
	return nil
}

// MayUpdate reports whether the role of the connection may read a table and update columns of it.
func (d *Database) MayUpdate(ctx context.Context, table string, columns []string) (may bool, err error) {
	err = d.Conn.QueryRow(ctx, `SELECT count(*) > 0 FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
		WHERE nspname || '.' || relname = $1 AND has_table_privilege(c.oid, 'SELECT') AND NOT EXISTS (
			SELECT FROM pg_attribute WHERE attrelid = c.oid AND attname = ANY($2) AND NOT attisdropped AND NOT has_column_privilege(c.oid, attnum, 'UPDATE'))`,
		table, columns).Scan(&may)
	if err != nil {
		return false, fmt.Errorf("read the rights on %s: %w", table, err)
	}
	return may, nil
}

// columns returns those that are set, each once.
func (m *Marks) columns() (names []string) {
	for _, a := range slices.Concat(m.o.Set, m.o.OnDeadLetter) {
		names = append(names, a.Column)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// unfit says that PostgreSQL refuses the condition, or what is set.
func (m *Marks) unfit(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code == stateInsufficientPrivilege || !slices.Contains([]string{"22", "42", "0A"}, pg.Code[:2]) {
		return m.failed("prepare the marks", err)
	}
	return cdc.ConfigError(cdc.BadWriteBack, "correct write_back: pending is what follows WHERE, and set has a text or {sql: an expression} for each column, in PostgreSQL's SQL",
		"write_back of table %s: PostgreSQL: %s", m.Table, pg.Message)
}

// Pending returns the keys of committed rows that are pending, at most limit.
func (m *Marks) Pending(ctx context.Context, limit int) ([]cdc.RowKey, cdc.Position, error) {
	return m.find(ctx, fmt.Sprintf("SELECT %s::text FROM ONLY %s WHERE %s AND %[1]s IS NOT NULL LIMIT $1", m.key, m.SQL, m.pending), limit)
}

// these is the condition for the rows of the keys $1 that are still pending.
func (m *Marks) these() string {
	return " WHERE " + m.among("$1") + " AND " + m.pending
}

// update is the statement that marks the rows of the keys $1.
func (m *Marks) update(set []cdc.Assignment) (text string, values []any) {
	var list []string
	for _, a := range set {
		to := "(" + a.SQL + "\n)"
		if a.SQL == "" {
			values = append(values, a.Value)
			to = fmt.Sprintf("$%d", len(values)+1)
		}
		list = append(list, pgx.Identifier{a.Column}.Sanitize()+" = "+to)
	}
	return "UPDATE ONLY " + m.SQL + " SET " + strings.Join(list, ", ") + m.these(), values
}

// Mark marks the rows of these keys that are still pending, in one transaction, and returns how many. Rows that another transaction has
// locked are left out: nothing here waits for a row, so that no writer meets a deadlock.
func (m *Marks) Mark(ctx context.Context, keys []cdc.RowKey, dead bool) (n int, err error) {
	set := m.o.Set
	if dead {
		set = m.o.OnDeadLetter
	}
	err = pgx.BeginTxFunc(ctx, m.db.Conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		locked, err := m.texts(ctx, tx, fmt.Sprintf("SELECT %s::text AS locked_id FROM ONLY %s%s ORDER BY %[1]s FOR UPDATE SKIP LOCKED", m.key, m.SQL, m.these()), textsOf(keys))
		if err != nil || len(locked) == 0 {
			return err
		}
		text, values := m.update(set)
		if _, err := tx.Exec(ctx, text, append([]any{locked}, values...)...); err != nil {
			return err
		}
		var left int
		if err := tx.QueryRow(ctx, "SELECT count(*) FROM ONLY "+m.SQL+m.these(), locked).Scan(&left); err != nil {
			return err
		}
		n = len(locked)
		return stillPending(m.Table, left)
	})
	if err != nil {
		return 0, m.failed("mark rows", err)
	}
	return n, nil
}

// stillPending is the error of marks that change nothing, and would be made again and again.
func stillPending(table string, rows int) error {
	if rows == 0 {
		return nil
	}
	return cdc.Fixable("have write_back set a column so that its condition no longer holds, and look for a trigger or rule that takes it back",
		"rows of table %s would be pending after they are marked: %d of a batch", table, rows)
}

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
	// Table is its name ("public.outbox"), SQL the name in SQL.
	Table, SQL string
	// Key is the column with the event's ID, and IDPrefix what goes before it.
	Key, IDPrefix string
	// Pending is the condition of the rows that are marked.
	Pending string
	// Set is what becomes of them, OnDeadLetter what becomes of those whose events are dead letters.
	Set, OnDeadLetter []cdc.Assignment
	// Slot and Load tell what is relayed.
	Slot string
	Load cdc.Loader
}

// Marks are the rows of a table that are marked once they are published. Those of a table that inherits from it are never among them.
type Marks struct {
	db *Database
	o  MarkOptions
	// key is quoted, pending is in brackets; keyType is the key's type.
	key, pending, keyType string
}

// Marks returns the rows of a table. Verify comes first.
func (d *Database) Marks(o MarkOptions) *Marks {
	return &Marks{db: d, o: o, key: pgx.Identifier{o.Key}.Sanitize(), pending: "(" + o.Pending + "\n)"} // the condition may end with a comment
}

// Name returns the table's name.
func (m *Marks) Name() string { return m.o.Table }

const describeMarks = `SELECT relkind = 'p', coalesce(format_type(k.atttypid, k.atttypmod), ''), coalesce(` + inheritor + `, ''),
	EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid AND indisunique AND indisvalid AND indpred IS NULL AND indnkeyatts = 1 AND indkey[0] = k.attnum),
	has_table_privilege(c.oid, 'SELECT'),
	ARRAY(SELECT unnest($3::text[]) EXCEPT SELECT attname FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY 1),
	ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attname = ANY($3) AND NOT attisdropped AND NOT has_column_privilege(c.oid, attnum, 'UPDATE') ORDER BY 1)
	FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
	LEFT JOIN pg_attribute k ON k.attrelid = c.oid AND k.attname = $2 AND NOT k.attisdropped
	WHERE nspname || '.' || relname = $1`

// Verify returns an error if rows cannot be marked, and prepares the connection.
func (m *Marks) Verify(ctx context.Context) error {
	if m.db.Server.Standby {
		return cdc.Fixable("point source.postgres.dsn at the primary", "rows of %s: %s is a standby, which takes no writes", m.o.Table, m.db.Server.Address)
	}
	var partitioned, unique, reads bool
	var child string
	var missing, lacks []string
	err := m.db.Conn.QueryRow(ctx, describeMarks, m.o.Table, m.o.Key, m.columns()).Scan(&partitioned, &m.keyType, &child, &unique, &reads, &missing, &lacks)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return cdc.Fixable("correct tables[].name, or create the table", "table %s does not exist", m.o.Table)
	case err != nil:
		return fmt.Errorf("read table %s: %w", m.o.Table, err)
	case partitioned:
		return cdc.Fixable("remove write_back: old partitions are dropped as a whole, and need no marks", "rows of %s are not marked: it has partitions, so no index finds a row by its ID alone", m.o.Table)
	case child != "":
		return inherited(m.o.Table, m.o.SQL, child)
	case !unique:
		return cdc.Fixable("create a unique index on it", "column %s of table %s has no unique index of its own, by which rows could be marked", m.o.Key, m.o.Table)
	case len(missing) > 0:
		return cdc.ConfigError(cdc.BadWriteBack, "correct write_back", "column %s, which write_back sets, does not exist in table %s, or is generated", missing[0], m.o.Table)
	case !reads || len(lacks) > 0:
		return cdc.Fixable(fmt.Sprintf("run `cdc-relay setup` with the owner's connection string, or GRANT SELECT, UPDATE ON %s TO %s", m.o.SQL, pgx.Identifier{m.db.Server.Role}.Sanitize()),
			"role %q may not mark rows of %s", m.db.Server.Role, m.o.Table)
	}
	// Shorter than deadlock_timeout: a trigger that waits for a transaction which waits for a row is given up before that one is. A relay
	// that is frozen holds no rows for long.
	for _, setting := range []string{releaseEarly, "SET row_security = off", "SET lock_timeout = '500ms'", "SET idle_in_transaction_session_timeout = '10s'", "SET TIME ZONE 'UTC'"} {
		if err := m.db.Exec(ctx, "prepare the connection", setting); err != nil {
			return err
		}
	}
	// The condition must be one without brackets around it, too: with them others could be added.
	statements := []string{"SELECT FROM ONLY " + m.o.SQL + " WHERE " + m.o.Pending + "\nLIMIT 0"}
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
		"write_back of table %s: PostgreSQL: %s", m.o.Table, pg.Message)
}

// Pending returns the keys of committed rows that are pending, at most limit, and a position behind the transactions that wrote them: a
// row is visible only after its commit is in the WAL, so the WAL's end that is read afterwards is behind it.
func (m *Marks) Pending(ctx context.Context, limit int) ([]cdc.RowKey, cdc.Position, error) {
	keys, err := m.keys(ctx, m.db.Conn, fmt.Sprintf("SELECT %s::text FROM ONLY %s WHERE %s AND %[1]s IS NOT NULL LIMIT $1", m.key, m.o.SQL, m.pending), limit)
	if err != nil {
		return nil, "", m.failed("read pending rows", err)
	}
	var behind string
	if err := m.db.Conn.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&behind); err != nil {
		return nil, "", m.failed("read the WAL's end", err)
	}
	list := make([]cdc.RowKey, len(keys))
	for i, key := range keys {
		list[i] = cdc.NewRowKey(m.o.IDPrefix, key, key)
	}
	return list, cdc.Position(behind), nil
}

type queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func (m *Marks) keys(ctx context.Context, db queryer, query string, args ...any) ([]string, error) {
	rows, err := db.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Passed reports whether the slot and the checkpoint have passed a position.
func (m *Marks) Passed(ctx context.Context, behind cdc.Position) (bool, error) {
	done, err := m.db.relayed(ctx, m.o.Slot, m.o.Load)
	if err != nil {
		return false, err
	}
	noted, err := ParseLSN(behind)
	if err == nil {
		err = done.unknown
	}
	return err == nil && done.passed(noted), err
}

// these is the condition for the rows of the keys $1 that are still pending.
func (m *Marks) these() string {
	return fmt.Sprintf(" WHERE %s = ANY($1::text[]::%s[]) AND %s", m.key, m.keyType, m.pending)
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
	return "UPDATE ONLY " + m.o.SQL + " SET " + strings.Join(list, ", ") + m.these(), values
}

// Mark marks the rows of these keys that are still pending, in one transaction, and returns how many. Rows that another transaction has
// locked are left out: nothing here waits for a row, so that no writer meets a deadlock.
func (m *Marks) Mark(ctx context.Context, keys []cdc.RowKey, dead bool) (n int, err error) {
	set := m.o.Set
	if dead {
		set = m.o.OnDeadLetter
	}
	texts := make([]string, len(keys))
	for i := range keys {
		texts[i], _ = keys[i].Value.(string)
	}
	err = pgx.BeginTxFunc(ctx, m.db.Conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		locked, err := m.keys(ctx, tx, fmt.Sprintf("SELECT %s::text AS locked_id FROM ONLY %s%s ORDER BY %[1]s FOR UPDATE SKIP LOCKED", m.key, m.o.SQL, m.these()), texts)
		if err != nil || len(locked) == 0 {
			return err
		}
		text, values := m.update(set)
		if _, err := tx.Exec(ctx, text, append([]any{locked}, values...)...); err != nil {
			return err
		}
		var left int
		if err := tx.QueryRow(ctx, "SELECT count(*) FROM ONLY "+m.o.SQL+m.these(), locked).Scan(&left); err != nil {
			return err
		}
		n = len(locked)
		return stillPending(m.o.Table, left)
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

func (m *Marks) failed(doing string, err error) error {
	var pg *pgconn.PgError
	switch {
	case !errors.As(err, &pg):
		if cdc.Fix(err) != "" {
			return err
		}
		return fmt.Errorf("table %s: %s: %w", m.o.Table, doing, err)
	case pg.Code == stateLockNotAvailable, pg.Code == stateDeadlockDetected:
		return cdc.Fixable(endLockers, "table %s: %s: %w: %s", m.o.Table, doing, cdc.ErrBusy, lockHeld)
	}
	return fmt.Errorf("table %s: %s: PostgreSQL: %w", m.o.Table, doing, pg)
}

package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// RowOptions name a table whose rows are deleted or marked by their key once they are published.
type RowOptions struct {
	cdc.RowAction

	// Slot and Load tell what is relayed; see Partitions.
	Slot string
	Load cdc.Loader
}

// Rows are the rows of such a table. Rows of one that inherits from it are never among them: nothing publishes them.
type Rows struct {
	RowOptions

	db *Database
	// key and at are quoted; keyType is the key's type.
	key, at, keyType string
	zone             *cdc.Zone // of the time; nil: UTC, or it has one
}

// Rows returns the rows of a table. Verify comes first.
func (d *Database) Rows(o RowOptions) *Rows {
	return &Rows{RowOptions: o, db: d, key: pgx.Identifier{o.Key}.Sanitize(), at: pgx.Identifier{o.At}.Sanitize()}
}

// described is what the catalog says of the table and of this role's rights.
type described struct {
	parts, unique, reads, deletes bool
	child                         string   // a table that inherits from it
	timed                         string   // the timeType of the column with the time
	missing, lacks                []string // columns to set that are not there, and those that may not be set
}

const describeRows = `SELECT relkind = 'p', coalesce(format_type(a.atttypid, a.atttypmod), ''), coalesce(` + inheritor + `, ''),
	EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid AND indisunique AND indisvalid AND indpred IS NULL AND indnkeyatts = 1 AND indkey[0] = a.attnum),
	has_table_privilege(c.oid, 'SELECT'), has_table_privilege(c.oid, 'DELETE'),
	coalesce((SELECT ` + timeType + ` FROM pg_attribute JOIN pg_type t ON t.oid = atttypid WHERE attrelid = c.oid AND attname = $3 AND NOT attisdropped), ''),
	ARRAY(SELECT unnest($4::text[]) EXCEPT SELECT attname FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY 1),
	ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attname = ANY($4) AND NOT attisdropped AND NOT has_column_privilege(c.oid, attnum, 'UPDATE') ORDER BY 1)
	FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
	LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = $2 AND NOT a.attisdropped
	WHERE nspname || '.' || relname = $1`

// Verify returns an error if rows cannot be deleted or marked, and prepares the connection: a policy would hide rows, and what a
// transaction has locked waits for the next pass.
func (r *Rows) Verify(ctx context.Context) error {
	if r.db.Server.Standby {
		return cdc.Fixable("point source.postgres.dsn at the primary", "rows of %s: %s is a standby, which takes no writes", r.Table, r.db.Server.Address)
	}
	if err := r.db.Exec(ctx, "prepare the connection", emptyPath); err != nil {
		return err
	}
	var d described
	err := r.db.Conn.QueryRow(ctx, describeRows, r.Table, r.Key, r.At, r.Columns()).
		Scan(&d.parts, &r.keyType, &d.child, &d.unique, &d.reads, &d.deletes, &d.timed, &d.missing, &d.lacks)
	// Triggers and the configuration's SQL count on the path, also those of the other tables that this connection is for.
	if resetErr := r.db.Exec(ctx, "prepare the connection", "RESET search_path"); err == nil {
		err = resetErr
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return cdc.Fixable("correct tables[].name, or create the table", "table %s does not exist", r.Table)
	case err != nil:
		return fmt.Errorf("read table %s: %w", r.Table, err)
	case d.parts:
		return r.Partitioned(r.Table)
	case d.child != "":
		return inherited(r.Table, r.SQL, d.child)
	case r.keyType == "": // there is no such column
		return cdc.NoUniqueIndex(r.Key, r.Table)
	}
	for _, setting := range []string{
		releaseEarly, "SET row_security = off", "SET TIME ZONE 'UTC'",
		"SET idle_in_transaction_session_timeout = '10s'", // a relay that is frozen holds no rows for long
		"SET lock_timeout = '500ms'",                      // shorter than deadlock_timeout: a trigger that waits for a transaction which waits for a row is given up before that one is
	} {
		if err := r.db.Exec(ctx, "prepare the connection", setting); err != nil {
			return err
		}
	}
	if r.Marks() {
		err = r.verifyMarks(ctx, &d)
	} else {
		err = r.verifyDeletes(&d)
	}
	if err == nil && !d.unique {
		err = cdc.NoUniqueIndex(r.Key, r.Table)
	}
	return err
}

// due is the condition of the rows that are deleted or marked.
func (r *Rows) due() string {
	if r.Marks() {
		return "(" + r.Pending + "\n)" // the condition may end with a comment
	}
	return fmt.Sprintf("%s < now() - make_interval(secs => %f)", r.at, r.zone.Ago(r.OlderThan).Seconds())
}

// these is the condition for the rows of the keys $1 that are still due.
func (r *Rows) these() string {
	return fmt.Sprintf(" WHERE %s = ANY($1::text[]::%s[]) AND %s", r.key, r.keyType, r.due())
}

// Due returns the keys of committed rows that are due, at most limit, and a position behind the transactions that wrote them. A row is seen
// once its transaction has ended in the WAL, so the end that is read afterwards is behind it.
func (r *Rows) Due(ctx context.Context, limit int) ([]cdc.RowKey, cdc.Position, error) {
	texts, err := r.texts(ctx, r.db.Conn, fmt.Sprintf("SELECT %s::text FROM ONLY %s WHERE %s AND %[1]s IS NOT NULL LIMIT $1", r.key, r.SQL, r.due()), limit)
	if err != nil {
		return nil, "", r.failed("read rows", err)
	}
	var behind string
	if err := r.db.Conn.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&behind); err != nil {
		return nil, "", r.failed("read the WAL's end", err)
	}
	keys := make([]cdc.RowKey, len(texts))
	for i, text := range texts {
		keys[i] = cdc.NewRowKey(r.IDPrefix, text, text)
	}
	return keys, cdc.Position(behind), nil
}

type queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func (r *Rows) texts(ctx context.Context, db queryer, query string, args ...any) ([]string, error) {
	rows, _ := db.Query(ctx, query, args...) // CollectRows returns its error
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Passed reports whether the slot and the checkpoint have passed a position.
func (r *Rows) Passed(ctx context.Context, behind cdc.Position) (bool, error) {
	done, err := r.db.relayed(ctx, r.Slot, r.Load)
	if err != nil {
		return false, err
	}
	noted, err := ParseLSN(behind)
	if err == nil {
		err = done.unknown
	}
	return err == nil && done.passed(noted), err
}

// Act deletes or marks the rows of these keys that are still due, in one transaction, and returns how many. Rows that another transaction has
// locked are not marked: a mark waits for no row, so that no writer meets a deadlock. To leave them out takes the right to UPDATE, which
// a role that deletes lacks.
func (r *Rows) Act(ctx context.Context, keys []cdc.RowKey, dead bool) (n int, err error) {
	texts := make([]string, len(keys))
	for i := range keys {
		texts[i], _ = keys[i].Value.(string)
	}
	err = pgx.BeginTxFunc(ctx, r.db.Conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		text, values := "DELETE FROM ONLY "+r.SQL+r.these(), []any(nil)
		if r.Marks() {
			locked := fmt.Sprintf("SELECT %s::text AS locked_id FROM ONLY %s%s ORDER BY %[1]s FOR UPDATE SKIP LOCKED", r.key, r.SQL, r.these())
			if texts, err = r.texts(ctx, tx, locked, texts); err != nil || len(texts) == 0 {
				return err
			}
			text, values = r.update(r.Assigned(dead))
		}
		done, err := tx.Exec(ctx, text, append([]any{texts}, values...)...)
		if err != nil {
			return err
		}
		var left int
		if err := tx.QueryRow(ctx, "SELECT count(*) FROM ONLY "+r.SQL+r.these(), texts).Scan(&left); err != nil {
			return err
		}
		n = int(done.RowsAffected())
		return r.kept(left)
	})
	if err != nil { // also that of a deferred constraint, which comes with the commit
		return 0, r.failed(r.Doing(), err)
	}
	return n, nil
}

// kept is the error of a statement that leaves rows as they are, as a trigger or a rule has it do: the next one would do so again.
func (r *Rows) kept(rows int) error {
	switch {
	case rows == 0:
		return nil
	case r.Marks():
		return cdc.StillPending(r.Table, rows)
	}
	return cdc.Fixable("make the trigger ON DELETE return OLD, or drop the rule ON DELETE, at least for role "+pgx.Identifier{r.db.Server.Role}.Sanitize(),
		"table %s: %w: DELETE leaves them without an error, as a trigger or a rule has it do", r.Table, cdc.ErrHeld)
}

func (r *Rows) failed(doing string, err error) error {
	var pg *pgconn.PgError
	switch {
	case err == nil, cdc.Fix(err) != "":
		return err
	case !errors.As(err, &pg):
		return fmt.Errorf("table %s: %s: %w", r.Table, doing, err)
	case pg.Code == stateLockNotAvailable, pg.Code == stateDeadlockDetected:
		return cdc.Fixable(endLockers, "table %s: %s: %w: %s", r.Table, doing, cdc.ErrBusy, lockHeld)
	case !r.Marks():
		return r.notDeleted(doing, pg)
	}
	return fmt.Errorf("table %s: %s: PostgreSQL: %w", r.Table, doing, pg)
}

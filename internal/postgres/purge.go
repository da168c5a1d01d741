package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// RowOptions name a table whose old rows are deleted.
type RowOptions struct {
	// Table is its name ("public.outbox"), SQL the name in SQL.
	Table, SQL string
	// Key is the column with the event's ID, At the one with the time.
	Key, At string
	// Zone is where the clocks were that wrote the time, if its type has no zone; nil: UTC.
	Zone *cdc.Zone
	// Slot and Load tell what is relayed; see Partitions.
	Slot string
	Load cdc.Loader
}

// Rows are the rows of a table without partitions. Those of a table that inherits from it are never among them: nothing publishes them.
type Rows struct {
	db *Database
	o  RowOptions
	// key and at are quoted; keyType is the key's type.
	key, at, keyType string
	zone             *cdc.Zone // of the time; nil: UTC, or it has one
}

// Rows returns the rows of a table. Verify comes first.
func (d *Database) Rows(o RowOptions) *Rows {
	return &Rows{db: d, o: o, key: pgx.Identifier{o.Key}.Sanitize(), at: pgx.Identifier{o.At}.Sanitize()}
}

// Name returns the table's name.
func (r *Rows) Name() string { return r.o.Table }

const describeRows = `SELECT relkind = 'p', coalesce(has_table_privilege(c.oid, 'DELETE') AND has_table_privilege(c.oid, 'SELECT'), false),
	coalesce(format_type(k.atttypid, k.atttypmod), ''), coalesce(` + timeType + `, ''),
	EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid AND indisunique AND indisvalid AND indpred IS NULL AND indnkeyatts = 1 AND indkey[0] = k.attnum),
	coalesce(` + inheritor + `, '')
	FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
	LEFT JOIN pg_attribute k ON k.attrelid = c.oid AND k.attname = $2 AND NOT k.attisdropped
	LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = $3 AND NOT a.attisdropped LEFT JOIN pg_type t ON t.oid = a.atttypid
	WHERE nspname || '.' || relname = $1`

// Verify returns an error if old rows cannot be deleted, and prepares the connection.
func (r *Rows) Verify(ctx context.Context) error {
	if r.db.Server.Standby {
		return cdc.Fixable("point source.postgres.dsn at the primary", "old rows of %s: %s is a standby, which takes no writes", r.o.Table, r.db.Server.Address)
	}
	var partitioned, may, unique bool
	var timed, child string
	err := r.db.Conn.QueryRow(ctx, describeRows, r.o.Table, r.o.Key, r.o.At).Scan(&partitioned, &may, &r.keyType, &timed, &unique, &child)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return cdc.Fixable("correct tables[].name, or create the table", "table %s does not exist", r.o.Table)
	case err != nil:
		return fmt.Errorf("read table %s: %w", r.o.Table, err)
	case partitioned:
		return cdc.Fixable("set partitions in place of retention.delete if they are daily ones of cdc-relay; otherwise remove retention.delete, and drop the partitions with the means of the software that made them",
			"table %s has partitions, which are dropped as a whole: its rows are not deleted", r.o.Table)
	case child != "":
		return inherited(r.o.Table, r.o.SQL, child)
	case timed == "":
		return cdc.Fixable("map created_at to a column with the time of the INSERT", "column %s of table %s is no date and no timestamp, so it does not tell which rows are old", r.o.At, r.o.Table)
	case !unique:
		return cdc.Fixable("create a unique index on it", "column %s of table %s has no unique index of its own, by which old rows could be deleted", r.o.Key, r.o.Table)
	case !may:
		return cdc.Fixable(fmt.Sprintf("run `cdc-relay setup` with the owner's connection string, or GRANT SELECT, DELETE ON %s TO %s", r.o.SQL, pgx.Identifier{r.db.Server.Role}.Sanitize()),
			"role %q may not delete rows of %s", r.db.Server.Role, r.o.Table)
	}
	if timed == localTime {
		r.zone = r.o.Zone
	}
	// A policy would hide rows; a row that a transaction has locked waits for the next pass.
	for _, setting := range []string{releaseEarly, "SET row_security = off", "SET lock_timeout = '1s'"} {
		if err := r.db.Exec(ctx, "prepare the connection", setting); err != nil {
			return err
		}
	}
	return nil
}

// MayDelete reports whether the role of the connection may delete rows of a table.
func (d *Database) MayDelete(ctx context.Context, table string) (may bool, err error) {
	err = d.Conn.QueryRow(ctx, `SELECT count(*) > 0 FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
		WHERE nspname || '.' || relname = $1 AND has_table_privilege(c.oid, 'DELETE')`, table).Scan(&may)
	if err != nil {
		return false, fmt.Errorf("read the rights on %s: %w", table, err)
	}
	return may, nil
}

// old is the condition for rows older than $1 seconds that can be deleted by their key.
func (r *Rows) old() string {
	return fmt.Sprintf("%s < now() - make_interval(secs => $1) AND %s IS NOT NULL", r.at, r.key)
}

// seconds is how old a row of that age is by the server's clock, whose zone is UTC.
func (r *Rows) seconds(age time.Duration) float64 { return r.zone.Ago(age).Seconds() }

// Count counts the rows older than age, up to a limit.
func (r *Rows) Count(ctx context.Context, age time.Duration, limit int) (n int, err error) {
	err = r.db.Conn.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM (SELECT FROM ONLY %s WHERE %s LIMIT $2) AS counted`, r.o.SQL, r.old()), r.seconds(age), limit).Scan(&n)
	return n, r.failed("count old rows", err)
}

// Keyless returns an error if rows older than age have no key.
func (r *Rows) Keyless(ctx context.Context, age time.Duration) error {
	var n int
	err := r.db.Conn.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM ONLY %s WHERE %s IS NULL AND %s < now() - make_interval(secs => $1)`, r.o.SQL, r.key, r.at), r.seconds(age)).Scan(&n)
	if err != nil {
		return r.failed("count old rows without an ID", err)
	}
	if n == 0 {
		return nil
	}
	return cdc.Fixable(fmt.Sprintf("set it with UPDATE %s SET %s = ... WHERE %[2]s IS NULL, after which they are deleted, and run ALTER TABLE %[1]s ALTER COLUMN %[2]s SET NOT NULL", r.o.SQL, r.key),
		"table %s: old rows are not deleted: %d, whose column %s is NULL", r.o.Table, n, r.o.Key)
}

// Old returns the keys of rows older than age, as text. A row is visible only after its commit is in the WAL, so the WAL's end
// that is read afterwards is behind it.
func (r *Rows) Old(ctx context.Context, age time.Duration, limit int) ([]any, cdc.Position, error) {
	return r.read(ctx, "LIMIT $2", r.seconds(age), limit)
}

// OldAfter returns the same in the order of keys, behind one.
func (r *Rows) OldAfter(ctx context.Context, age time.Duration, limit int, after any) ([]any, cdc.Position, error) {
	order := fmt.Sprintf("ORDER BY old.%s LIMIT $2", r.key) // without the table's name it is that of the text
	if after == nil {
		return r.read(ctx, order, r.seconds(age), limit)
	}
	return r.read(ctx, fmt.Sprintf("AND %s > $3::text::%s %s", r.key, r.keyType, order), r.seconds(age), limit, after)
}

func (r *Rows) read(ctx context.Context, rest string, args ...any) ([]any, cdc.Position, error) {
	keys, err := r.keys(ctx, fmt.Sprintf("SELECT %s::text FROM ONLY %s AS old WHERE %s %s", r.key, r.o.SQL, r.old(), rest), args...)
	if err != nil {
		return nil, "", r.failed("read old rows", err)
	}
	var behind string
	if err := r.db.Conn.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&behind); err != nil {
		return nil, "", r.failed("read the WAL's end", err)
	}
	return keys, cdc.Position(behind), nil
}

func (r *Rows) keys(ctx context.Context, query string, args ...any) ([]any, error) {
	rows, err := r.db.Conn.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (key any, err error) {
		var text string
		err = row.Scan(&text)
		return text, err
	})
}

// Passed reports whether the slot and the checkpoint have passed a position.
func (r *Rows) Passed(ctx context.Context, behind cdc.Position) (bool, error) {
	done, err := r.db.relayed(ctx, r.o.Slot, r.o.Load)
	if err != nil {
		return false, err
	}
	noted, err := ParseLSN(behind)
	if err == nil {
		err = done.unknown
	}
	return err == nil && done.passed(noted), err
}

// Delete deletes the rows of these keys that are older than age.
func (r *Rows) Delete(ctx context.Context, keys []any, age time.Duration) (n int64, held []any, err error) {
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i], _ = key.(string)
	}
	where := fmt.Sprintf("ONLY %s WHERE %s AND %s = ANY($2::text[]::%s[])", r.o.SQL, r.old(), r.key, r.keyType)
	done, err := r.db.Conn.Exec(ctx, "DELETE FROM "+where, r.seconds(age), texts)
	if err != nil { // it may come after the number of rows: that of a deferred constraint comes with the commit
		return 0, nil, r.failed("delete old rows", err)
	}
	if n = done.RowsAffected(); n == int64(len(keys)) {
		return n, nil, nil
	}
	if held, err = r.keys(ctx, fmt.Sprintf("SELECT %s::text FROM %s", r.key, where), r.seconds(age), texts); err != nil || len(held) == 0 {
		return n, nil, r.failed("read old rows", err) // another session has deleted them
	}
	return n, held, r.kept(ctx)
}

// kept says why rows stay of a DELETE that reports no error.
func (r *Rows) kept(ctx context.Context) error {
	var by []string
	err := r.db.Conn.QueryRow(ctx, `SELECT ARRAY(
		SELECT 'rule ' || quote_ident(rulename) FROM pg_rewrite WHERE ev_class = $1::text::regclass AND ev_type = '4' AND ev_enabled <> 'D'
		UNION SELECT 'trigger ' || quote_ident(tgname) FROM pg_trigger WHERE tgrelid = $1::text::regclass AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 11 = 11 ORDER BY 1)`,
		r.o.SQL).Scan(&by)
	if err != nil {
		return r.failed("read its triggers and rules", err)
	}
	return cdc.Fixable("make the trigger return OLD, or drop the rule, at least for role "+pgx.Identifier{r.db.Server.Role}.Sanitize(),
		"%w: DELETE has %s", cdc.ErrHeld, cmp.Or(strings.Join(by, ", "), "no trigger and no rule that could be the reason"))
}

// heldByKey says which foreign key keeps rows.
func heldByKey(doing string, pg *pgconn.PgError) error {
	of := pgx.Identifier{pg.SchemaName, pg.TableName}.Sanitize()
	return cdc.Fixable(fmt.Sprintf("delete the rows of %s that refer to old events, or run ALTER TABLE %[1]s DROP CONSTRAINT %s", of, pgx.Identifier{pg.ConstraintName}.Sanitize()),
		"%s%w: foreign key %s of table %s.%s (%s)", doing, cdc.ErrHeld, pg.ConstraintName, pg.SchemaName, pg.TableName, pg.Message)
}

func (r *Rows) failed(doing string, err error) error {
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &pg):
		return fmt.Errorf("table %s: %s: %w", r.o.Table, doing, err)
	case (pg.Code == stateForeignKeyViolation || pg.Code == stateRestrictViolation) && pg.ConstraintName != "":
		return heldByKey("", pg)
	case pg.Code == stateLockNotAvailable, pg.Code == stateDeadlockDetected:
		return cdc.Fixable(endLockers, "table %s: %s: %w: %s", r.o.Table, doing, cdc.ErrBusy, lockHeld)
	case pg.Code == stateQueryCanceled:
		return cdc.Fixable(fmt.Sprintf("create an index on %s", r.at), "table %s: %s: PostgreSQL was not done in time", r.o.Table, doing)
	case pg.Code == stateRaised, pg.Where != "" && !slices.Contains([]string{"08", "40", "53", "57", "58", "XX"}, pg.Code[:2]): // in a function, and not because of the server's state
		return cdc.Fixable("change the trigger's function so that it lets old rows go", "%w: a trigger ON DELETE says %q (SQLSTATE %s)", cdc.ErrHeld, pg.Message, pg.Code)
	}
	return fmt.Errorf("table %s: %s: PostgreSQL: %w", r.o.Table, doing, pg)
}

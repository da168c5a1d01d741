package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// RowOptions name a table whose old rows are deleted.
type RowOptions struct {
	KeyedOptions

	// At is the column with the time.
	At string
	// Zone is where the clocks were that wrote the time, if its type has no zone; nil: UTC.
	Zone *cdc.Zone
}

// Rows are the rows of a table without partitions.
type Rows struct {
	keyed

	o    RowOptions
	at   string    // quoted
	zone *cdc.Zone // of the time; nil: UTC, or it has one
}

// Rows returns the rows of a table. Verify comes first.
func (d *Database) Rows(o RowOptions) *Rows {
	return &Rows{keyed: d.keyed(o.KeyedOptions), o: o, at: pgx.Identifier{o.At}.Sanitize()}
}

const describeRows = `SELECT has_table_privilege(c.oid, 'DELETE') AND has_table_privilege(c.oid, 'SELECT'), coalesce(` + timeType + `, '')
	FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
	LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = $2 AND NOT a.attisdropped LEFT JOIN pg_type t ON t.oid = a.atttypid
	WHERE nspname || '.' || relname = $1`

// Verify returns an error if old rows cannot be deleted, and prepares the connection.
func (r *Rows) Verify(ctx context.Context) error {
	partitioned := cdc.Fixable("set partitions in place of retention.delete if they are daily ones of cdc-relay; otherwise remove retention.delete, and drop the partitions with the means of the software that made them",
		"table %s has partitions, which are dropped as a whole: its rows are not deleted", r.Table)
	if err := r.verify(ctx, "1s", partitioned); err != nil {
		return err
	}
	var may bool
	var timed string
	err := r.db.Conn.QueryRow(ctx, describeRows, r.Table, r.o.At).Scan(&may, &timed)
	switch {
	case err != nil:
		return fmt.Errorf("read table %s: %w", r.Table, err)
	case timed == "":
		return cdc.Fixable("map created_at to a column with the time of the INSERT", "column %s of table %s is no date and no timestamp, so it does not tell which rows are old", r.o.At, r.Table)
	case !may:
		return cdc.Fixable(fmt.Sprintf("run `cdc-relay setup` with the owner's connection string, or GRANT SELECT, DELETE ON %s TO %s", r.SQL, pgx.Identifier{r.db.Server.Role}.Sanitize()),
			"role %q may not delete rows of %s", r.db.Server.Role, r.Table)
	case timed == localTime:
		r.zone = r.o.Zone
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
	err = r.db.Conn.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM (SELECT FROM ONLY %s WHERE %s LIMIT $2) AS counted`, r.SQL, r.old()), r.seconds(age), limit).Scan(&n)
	return n, r.failed("count old rows", err)
}

// Keyless returns an error if rows older than age have no key.
func (r *Rows) Keyless(ctx context.Context, age time.Duration) error {
	var n int
	err := r.db.Conn.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM ONLY %s WHERE %s IS NULL AND %s < now() - make_interval(secs => $1)`, r.SQL, r.key, r.at), r.seconds(age)).Scan(&n)
	if err != nil {
		return r.failed("count old rows without an ID", err)
	}
	if n == 0 {
		return nil
	}
	return cdc.Fixable(fmt.Sprintf("set it with UPDATE %s SET %s = ... WHERE %[2]s IS NULL, after which they are deleted, and run ALTER TABLE %[1]s ALTER COLUMN %[2]s SET NOT NULL", r.SQL, r.key),
		"table %s: old rows are not deleted: %d, whose column %s is NULL", r.Table, n, r.Key)
}

// Old returns the keys of rows older than age.
func (r *Rows) Old(ctx context.Context, age time.Duration, limit int) ([]cdc.RowKey, cdc.Position, error) {
	return r.read(ctx, "LIMIT $2", r.seconds(age), limit)
}

// OldAfter returns the same in the order of keys, behind one.
func (r *Rows) OldAfter(ctx context.Context, age time.Duration, limit int, after any) ([]cdc.RowKey, cdc.Position, error) {
	order := fmt.Sprintf("ORDER BY old.%s LIMIT $2", r.key) // without the table's name it is that of the text
	if after == nil {
		return r.read(ctx, order, r.seconds(age), limit)
	}
	return r.read(ctx, fmt.Sprintf("AND %s > $3::text::%s %s", r.key, r.keyType, order), r.seconds(age), limit, after)
}

func (r *Rows) read(ctx context.Context, rest string, args ...any) ([]cdc.RowKey, cdc.Position, error) {
	return r.find(ctx, fmt.Sprintf("SELECT %s::text FROM ONLY %s AS old WHERE %s %s", r.key, r.SQL, r.old(), rest), args...)
}

// Delete deletes the rows of these keys that are older than age.
func (r *Rows) Delete(ctx context.Context, keys []cdc.RowKey, age time.Duration) (int64, error) {
	where := fmt.Sprintf("ONLY %s WHERE %s AND %s", r.SQL, r.old(), r.among("$2"))
	done, err := r.db.Conn.Exec(ctx, "DELETE FROM "+where, r.seconds(age), textsOf(keys))
	if err != nil { // it may come after the number of rows: that of a deferred constraint comes with the commit
		return 0, r.failed("delete old rows", err)
	}
	n := done.RowsAffected()
	if n == int64(len(keys)) {
		return n, nil
	}
	var left int // others may have been deleted by another session
	if err := r.db.Conn.QueryRow(ctx, "SELECT count(*) FROM "+where, r.seconds(age), textsOf(keys)).Scan(&left); err != nil || left == 0 {
		return n, r.failed("read old rows", err)
	}
	return n, cdc.Fixable("make the trigger ON DELETE return OLD, or drop the rule ON DELETE, at least for role "+pgx.Identifier{r.db.Server.Role}.Sanitize(),
		"%w: DELETE leaves them without an error, as a trigger or a rule has it do", cdc.ErrHeld)
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
	case !errors.As(err, &pg), pg.Code == stateLockNotAvailable:
	case (pg.Code == stateForeignKeyViolation || pg.Code == stateRestrictViolation) && pg.ConstraintName != "":
		return heldByKey("", pg)
	case pg.Code == stateQueryCanceled:
		return cdc.Fixable(fmt.Sprintf("create an index on %s", r.at), "table %s: %s: PostgreSQL was not done in time", r.Table, doing)
	case pg.Code == stateRaised, pg.Where != "" && !slices.Contains([]string{"08", "40", "53", "57", "58", "XX"}, pg.Code[:2]): // in a function, and not because of the server's state
		return cdc.Fixable("change the trigger's function so that it lets old rows go", "%w: a trigger ON DELETE says %q (SQLSTATE %s)", cdc.ErrHeld, pg.Message, pg.Code)
	}
	return r.keyed.failed(doing, err)
}

package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// KeyedOptions name a table whose rows are deleted or marked by their key once they are published.
type KeyedOptions struct {
	// Table is its name ("public.outbox"), SQL the name in SQL.
	Table, SQL string
	// Key is the column with the event's ID, and IDPrefix what goes before it.
	Key, IDPrefix string
	// Slot and Load tell what is relayed; see Partitions.
	Slot string
	Load cdc.Loader
}

// keyed is such a table. Rows of one that inherits from it are never among them: nothing publishes them.
type keyed struct {
	KeyedOptions

	db *Database
	// key is quoted; keyType is its type.
	key, keyType string
}

func (d *Database) keyed(o KeyedOptions) keyed {
	return keyed{KeyedOptions: o, db: d, key: pgx.Identifier{o.Key}.Sanitize()}
}

// Name returns the table's name.
func (k *keyed) Name() string { return k.Table }

const describeKeyed = `SELECT relkind = 'p', coalesce(format_type(a.atttypid, a.atttypmod), ''), coalesce(` + inheritor + `, ''),
	EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid AND indisunique AND indisvalid AND indpred IS NULL AND indnkeyatts = 1 AND indkey[0] = a.attnum)
	FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
	LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = $2 AND NOT a.attisdropped
	WHERE nspname || '.' || relname = $1`

// verify returns an error if rows cannot be written by their key, and prepares the connection: a policy would hide rows, and what a
// transaction has locked waits for the next pass. partitioned is the error of a table with partitions.
func (k *keyed) verify(ctx context.Context, lockTimeout string, partitioned error) error {
	if k.db.Server.Standby {
		return cdc.Fixable("point source.postgres.dsn at the primary", "rows of %s: %s is a standby, which takes no writes", k.Table, k.db.Server.Address)
	}
	var parts, unique bool
	var child string
	err := k.db.Conn.QueryRow(ctx, describeKeyed, k.Table, k.Key).Scan(&parts, &k.keyType, &child, &unique)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return cdc.Fixable("correct tables[].name, or create the table", "table %s does not exist", k.Table)
	case err != nil:
		return fmt.Errorf("read table %s: %w", k.Table, err)
	case parts:
		return partitioned
	case child != "":
		return inherited(k.Table, k.SQL, child)
	case !unique:
		return cdc.Fixable("create a unique index on it", "column %s of table %s has no unique index of its own, by which rows are found", k.Key, k.Table)
	}
	for _, setting := range []string{releaseEarly, "SET row_security = off", "SET lock_timeout = '" + lockTimeout + "'"} {
		if err := k.db.Exec(ctx, "prepare the connection", setting); err != nil {
			return err
		}
	}
	return nil
}

// among is the condition for the rows of the keys that a parameter has.
func (k *keyed) among(param string) string {
	return fmt.Sprintf("%s = ANY(%s::text[]::%s[])", k.key, param, k.keyType)
}

// find returns the keys that a query selects as text, and a position behind the transactions that wrote the rows: a row is visible only
// after its commit is in the WAL, so the WAL's end that is read afterwards is behind it.
func (k *keyed) find(ctx context.Context, query string, args ...any) ([]cdc.RowKey, cdc.Position, error) {
	texts, err := k.texts(ctx, k.db.Conn, query, args...)
	if err != nil {
		return nil, "", k.failed("read rows", err)
	}
	var behind string
	if err := k.db.Conn.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&behind); err != nil {
		return nil, "", k.failed("read the WAL's end", err)
	}
	keys := make([]cdc.RowKey, len(texts))
	for i, text := range texts {
		keys[i] = cdc.NewRowKey(k.IDPrefix, text, text)
	}
	return keys, cdc.Position(behind), nil
}

type queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func (k *keyed) texts(ctx context.Context, db queryer, query string, args ...any) ([]string, error) {
	rows, err := db.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// textsOf returns the texts that find has read.
func textsOf(keys []cdc.RowKey) []string {
	texts := make([]string, len(keys))
	for i := range keys {
		texts[i], _ = keys[i].Value.(string)
	}
	return texts
}

// Passed reports whether the slot and the checkpoint have passed a position.
func (k *keyed) Passed(ctx context.Context, behind cdc.Position) (bool, error) {
	done, err := k.db.relayed(ctx, k.Slot, k.Load)
	if err != nil {
		return false, err
	}
	noted, err := ParseLSN(behind)
	if err == nil {
		err = done.unknown
	}
	return err == nil && done.passed(noted), err
}

func (k *keyed) failed(doing string, err error) error {
	var pg *pgconn.PgError
	switch {
	case err == nil, cdc.Fix(err) != "":
		return err
	case !errors.As(err, &pg):
		return fmt.Errorf("table %s: %s: %w", k.Table, doing, err)
	case pg.Code == stateLockNotAvailable, pg.Code == stateDeadlockDetected:
		return cdc.Fixable(endLockers, "table %s: %s: %w: %s", k.Table, doing, cdc.ErrBusy, lockHeld)
	}
	return fmt.Errorf("table %s: %s: PostgreSQL: %w", k.Table, doing, pg)
}

package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// lockTimeout is how long a statement in a snapshot waits for a lock. Meanwhile it may hold the lock of the partitioned table, for which
// a DDL statement waits, and writers behind that.
const lockTimeout = time.Second

// lockPause is how long it leaves the table alone then.
const lockPause = 100 * time.Millisecond

// Reading implements [tableread.Driver]. It calls fn, which reads the table, in a transaction of its own in the snapshot, if there is one. The
// locks of the table end with it: a DDL statement, and the writers that wait behind it, wait for one statement of a repair at most. It
// returns [tableread.ErrAgain] if it could not have the lock, or if a partition was taken out meanwhile.
func (t *TableReader) Reading(ctx context.Context, fn func() error) error {
	if t.Options.Snapshot == "" {
		return fn()
	}
	var outside string
	err := t.inSnapshot(ctx, func() (err error) {
		if err = fn(); err == nil {
			outside, err = t.outsideSnapshot(ctx)
		}
		return err
	})
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == stateLockNotAvailable || pg.Code == stateDeadlockDetected) {
		return cmp.Or(cdc.Sleep(ctx, lockPause), tableread.ErrAgain)
	}
	if err != nil || outside == "" {
		return err
	}
	if changed, err := t.Refresh(ctx); err != nil || changed {
		return cmp.Or(err, tableread.ErrAgain)
	}
	return fmt.Errorf("table %s was rewritten, truncated, detached or replaced while it was read: its rows are not in the snapshot any more", outside)
}

// inSnapshot calls fn in a transaction of its own in the snapshot.
func (t *TableReader) inSnapshot(ctx context.Context, fn func() error) error {
	err := t.exec(ctx, fmt.Sprintf("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '%s'; SET LOCAL lock_timeout = %d",
		strings.ReplaceAll(t.Options.Snapshot, "'", "''"), lockTimeout.Milliseconds()))
	if err != nil {
		return fmt.Errorf("read table %s: use the snapshot: %w", t.Options.Table, err)
	}
	err = fn()
	if ended := t.exec(ctx, "ROLLBACK"); err == nil {
		return t.failed(ended)
	}
	return err
}

// outsideSnapshot returns a table that has rows in the snapshot and does not show them any more, or "": one that was rewritten, whose
// rows are those of the ALTER TABLE now; a partition that is none any more, and is not known to be taken out; or one that has another's
// name now. What pg_class and pg_inherits show is of the snapshot, what the functions return is of now. A table that was dropped has no
// file node. The locks of the statement before it are still held.
const outsideSnapshot = `WITH RECURSIVE tree AS (SELECT $1::text::regclass::oid AS oid UNION ALL SELECT inhrelid FROM pg_inherits JOIN tree ON inhparent = tree.oid)
	SELECT coalesce(min(c.oid::regclass::text), CASE WHEN NOT EXISTS (
		SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = $1::text::regclass AND nspname::text || '.' || relname::text = $3) THEN $3 ELSE '' END)
	FROM pg_class c WHERE c.relkind = 'r' AND CASE WHEN c.oid::text = ANY ($2::text[]) THEN pg_relation_filenode(c.oid) <> c.relfilenode
		ELSE c.oid IN (SELECT oid FROM tree) AND (pg_relation_filenode(c.oid) <> c.relfilenode
			OR c.relispartition AND pg_relation_filenode(c.oid) IS NOT NULL AND pg_partition_root(c.oid) IS NULL) END`

func (t *TableReader) outsideSnapshot(ctx context.Context) (name string, err error) {
	out := make([]string, len(t.Out))
	for i := range t.Out {
		out[i] = t.Out[i].ID
	}
	err = t.conn.QueryRow(ctx, outsideSnapshot, t.Options.SQL, out, t.Options.Table).Scan(&name)
	return name, t.failed(err)
}

package wal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Partitions are the daily partitions of one table, which the routine that setup makes maintains.
type Partitions struct {
	db                   *Database
	table, routine, slot string
}

// Partitions returns the partitions of a table ("public.outbox"). routine is the name of the routine in SQL.
func (d *Database) Partitions(table, routine, slot string) *Partitions {
	return &Partitions{d, table, routine, slot}
}

// Name returns the table's name.
func (p *Partitions) Name() string { return p.table }

// Writers wait for the lock until our transaction ends, so it does not wait for the disk or a standby.
const releaseEarly = "SET synchronous_commit = off"

// Maintainable prepares the connection for changes. It returns an error on a standby, and for a table without partitions.
func (p *Partitions) Maintainable(ctx context.Context) error {
	if p.db.Server.Standby {
		return cdc.Fixable("point source.postgres.dsn at the primary", "partitions of %s: %s is a standby, which takes no writes", p.table, p.db.Server.Address)
	}
	var partitioned bool
	err := p.db.conn.QueryRow(ctx, `SELECT count(*) > 0 FROM pg_partitioned_table
		JOIN pg_class c ON c.oid = partrelid JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname || '.' || relname = $1`, p.table).Scan(&partitioned)
	if err != nil {
		return fmt.Errorf("read partitions of %s: %w", p.table, err)
	}
	if !partitioned {
		return cdc.Fixable("remove partitions from the configuration, or create the table with `cdc-relay setup`", "table %s does not exist or has no partitions", p.table)
	}
	return p.db.Exec(ctx, "prepare the connection", releaseEarly)
}

// listPartitions reads the bounds of the partitions in the schema cdc_relay, and the comments of what the routine took
// out. The slot is behind the checkpoint or equal to it, so what it has passed is published and saved.
const listPartitions = `WITH outbox AS (
	SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE nspname || '.' || relname = $1
), part AS (
	SELECT c.oid, n.nspname || '.' || c.relname AS name, pg_get_expr(c.relpartbound, c.oid) AS bound,
		EXISTS (SELECT FROM pg_inherits i, outbox o WHERE i.inhrelid = c.oid AND i.inhparent = o.oid) AS attached,
		regexp_match(substr(obj_description(c.oid, 'pg_class'), length('cdc-relay: taken out of ' || $1) + 1), '^, until (\S+ \S+), WAL ([0-9A-F]+/[0-9A-F]+)$') AS taken,
		obj_description(c.oid, 'pg_class') LIKE 'cdc-relay: taken out of %' AND starts_with(obj_description(c.oid, 'pg_class'), 'cdc-relay: taken out of ' || $1 || ', until ') AS ours
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'cdc_relay' WHERE c.relkind = 'r'
) SELECT name, bound IS NOT DISTINCT FROM 'DEFAULT' OR NOT attached AND name ~ '_default_[0-9]{14}$', NOT attached,
	(regexp_match(bound, 'FROM \(''([^'']+)''\)'))[1]::timestamptz,
	CASE WHEN attached THEN (regexp_match(bound, ' TO \(''([^'']+)''\)'))[1] ELSE taken[1] END::timestamptz,
	coalesce(NOT attached AND (SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = $2) >= taken[2]::pg_lsn, false)
FROM part WHERE attached OR ours AND taken IS NOT NULL ORDER BY name`

// List returns the table's partitions and what the routine took out of it.
func (p *Partitions) List(ctx context.Context) ([]cdc.Partition, error) {
	rows, err := p.db.conn.Query(ctx, listPartitions, p.table, p.slot)
	if err != nil {
		return nil, fmt.Errorf("read partitions of %s: %w", p.table, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (cdc.Partition, error) {
		var part cdc.Partition
		var since, until *time.Time
		err := row.Scan(&part.Name, &part.Default, &part.Out, &since, &until, &part.Relayed)
		if until != nil {
			part.Until, part.Since = *until, until.Add(-24*time.Hour)
		}
		if since != nil {
			part.Since = *since
		}
		return part, err
	})
	if err != nil {
		return nil, fmt.Errorf("read partitions of %s: %w", p.table, err)
	}
	return list, nil
}

// DefaultRows counts the rows of the default partition, up to 100,000.
func (p *Partitions) DefaultRows(ctx context.Context) (int64, error) {
	return p.call(ctx, "count the rows of its default partition", "default_rows", time.Now())
}

// Make makes a day's partition; with swap it takes the default partition out and attaches an empty one.
func (p *Partitions) Make(ctx context.Context, day time.Time, swap bool) error {
	action := "make"
	if swap {
		action = "swap"
	}
	_, err := p.call(ctx, "make the partition of "+day.Format(time.DateOnly), action, day)
	return err
}

// TakeOut detaches a day's partition, which waits for the transactions that wrote to it.
func (p *Partitions) TakeOut(ctx context.Context, part cdc.Partition) error {
	_, err := p.call(ctx, "take out "+part.Name, "take_out", part.Since)
	return err
}

// Drop drops what was taken out.
func (p *Partitions) Drop(ctx context.Context, part cdc.Partition) error {
	action, at := "drop", part.Since
	if part.Default {
		action, at = "drop_default", part.Until
	}
	_, err := p.call(ctx, "drop "+part.Name, action, at)
	return err
}

func (p *Partitions) call(ctx context.Context, doing, action string, at time.Time) (n int64, err error) {
	err = p.db.conn.QueryRow(ctx, "SELECT "+p.routine+"($1::text, $2::text::timestamp)", action, at.UTC().Format("2006-01-02 15:04:05")).Scan(&n)
	if err != nil {
		return 0, p.callError(fmt.Sprintf("table %s: %s", p.table, doing), err)
	}
	return n, nil
}

func (p *Partitions) callError(doing string, err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	switch pg.Code {
	case stateLockNotAvailable, stateDeadlockDetected:
		return &cdc.FixableError{
			Cause: fmt.Errorf("%s: %w, and application and relay do not wait for each other", doing, cdc.ErrBusy),
			Fix:   "end long transactions on the table, if this is said again and again",
		}
	case stateCheckViolation:
		return fmt.Errorf("%s: %w: rows of that day have just been written to the default partition", doing, cdc.ErrBusy)
	case stateUndefinedFunction, stateInvalidSchemaName, stateInsufficientPrivilege:
		return cdc.Fixable("run `cdc-relay setup` with the owner's connection string, or use `cdc-relay partitions run --owner-dsn` from a timer",
			"%s: role %q may not call the routine that maintains the partitions (%s)", doing, p.db.Server.Role, pg.Message)
	}
	return fmt.Errorf("%s: PostgreSQL: %w", doing, pg)
}

// MayMaintain reports whether the role of the connection may call a table's routine.
func (d *Database) MayMaintain(ctx context.Context, routine string) (bool, error) {
	var may bool
	err := d.conn.QueryRow(ctx, `SELECT coalesce(has_schema_privilege('cdc_relay', 'USAGE') AND has_function_privilege(f, 'EXECUTE'), false)
		FROM (SELECT to_regprocedure($1) AS f) AS one`, routine+"(text, timestamp)").Scan(&may)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == stateInvalidSchemaName {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the rights on %s: %w", routine, err)
	}
	return may, nil
}

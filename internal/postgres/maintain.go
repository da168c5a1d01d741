package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// Partitions are the daily partitions of one table, which the routine that setup makes maintains.
type Partitions struct {
	db             *Database
	table, routine outbox.Name
	slot           string
	load           cdc.Loader
}

// Partitions returns the partitions of a table, which the routine maintains. What was taken out counts as relayed once the slot,
// and the checkpoint that load finds, have passed it.
func (d *Database) Partitions(table, routine outbox.Name, slot string, load cdc.Loader) *Partitions {
	return &Partitions{d, table, routine, slot, load}
}

// Name returns the table's name.
func (p *Partitions) Name() string { return p.table.String() }

// releaseEarly is because writers wait for the lock until our transaction ends: it does not wait for the disk or a standby.
// The role may be one that only reads where nothing else is said.
const releaseEarly = "SET synchronous_commit = off; " + writes

const writes = "SET default_transaction_read_only = off"

// Maintainable prepares the connection for changes. It returns an error on a standby, and for a table without partitions.
func (p *Partitions) Maintainable(ctx context.Context) error {
	if p.db.Server.Standby {
		return cdc.Fixable("point source.postgres.dsn at the primary", "partitions of %s: %s is a standby, which takes no writes", p.table, p.db.Server.Address)
	}
	var partitioned bool
	err := p.db.Conn.QueryRow(ctx, `SELECT count(*) > 0 FROM pg_partitioned_table
		JOIN pg_class c ON c.oid = partrelid JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname || '.' || relname = $1`, p.Name()).Scan(&partitioned)
	if err != nil {
		return fmt.Errorf("read partitions of %s: %w", p.table, err)
	}
	if !partitioned {
		return cdc.Fixable("set retention.partitions: false, or, if the table does not exist, create it with `cdc-relay setup`", "table %s does not exist or has no partitions", p.table)
	}
	return p.db.Exec(ctx, "prepare the connection", releaseEarly)
}

// listPartitions reads the bounds of the partitions, and the comments of what the routine took out. The last but one column tells by
// the name what neither setup nor the routine made, the last whether the comment is as the routine wrote it: that of a restored
// dump is not.
const listPartitions = `WITH outbox AS (
	SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE nspname || '.' || relname = $1
), part AS (
	SELECT nspname || '.' || relname AS name, nspname = 'cdc_relay' AS here, inhrelid IS NOT NULL AS attached,
		regexp_replace(pg_get_expr(relpartbound, c.oid), '\(MAXVALUE\)$', '(''9999-01-01 00:00:00+00'')') AS bound, d.xmin::text AS writer,
		regexp_match(substr(description, length('cdc-relay: taken out of ' || $1) + 1), '^, until (\S+ \S+), WAL ([0-9A-F]+/[0-9A-F]+), transaction ([0-9]+)$') AS taken
	FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace LEFT JOIN pg_inherits ON inhrelid = c.oid AND inhparent = (SELECT oid FROM outbox)
	LEFT JOIN pg_description d ON objoid = c.oid AND classoid = 'pg_class'::regclass AND objsubid = 0 AND starts_with(description, 'cdc-relay: taken out of ' || $1 || ', until ')
	WHERE inhrelid IS NOT NULL OR nspname = 'cdc_relay' AND relkind = 'r' AND description IS NOT NULL
), dated AS (
	SELECT *, coalesce((regexp_match(bound, 'FROM \(''([^'']+)''\)'))[1], '') AS since, coalesce((regexp_match(bound, ' TO \(''([^'']+)''\)$'))[1], '') AS until FROM part
) SELECT name, bound IS NOT DISTINCT FROM 'DEFAULT' OR NOT attached AND name ~ '_default_[0-9]{14}$', NOT attached, since, CASE WHEN attached THEN until ELSE taken[1] END,
	coalesce(taken[2], ''), attached AND NOT (here AND name ~ ('_(default|' || replace(left(since, 10), '-', '') || ')$')), coalesce(writer = taken[3], false)
FROM dated WHERE attached OR taken IS NOT NULL ORDER BY name`

// List returns the table's partitions and what the routine took out of it, and the server's time.
func (p *Partitions) List(ctx context.Context) ([]cdc.Partition, time.Time, error) {
	done, err := p.db.relayed(ctx, p.slot, p.load)
	if err != nil {
		return nil, done.now, fmt.Errorf("read partitions of %s: %w", p.table, err)
	}
	rows, _ := p.db.Conn.Query(ctx, listPartitions, p.Name()) // CollectRows returns its error
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (part cdc.Partition, err error) {
		var since, until, note string
		var untouched bool
		if err := row.Scan(&part.Name, &part.Default, &part.Out, &since, &until, &note, &part.Foreign, &untouched); err != nil {
			return part, err
		}
		part.Since, part.Until = bound(since), bound(until)
		if part.Out {
			part.Since = part.Until.Add(-24 * time.Hour)
			part.Relayed, part.Kept = done.verdict(part.Name, note, untouched)
		}
		return part, nil
	})
	if err != nil {
		return nil, done.now, fmt.Errorf("read partitions of %s: %w", p.table, err)
	}
	return list, done.now, nil
}

// bound parses a bound of a partition. The zero time stands for no bound, and for one that is no time.
func bound(text string) time.Time {
	t, _ := time.Parse("2006-01-02 15:04:05-07", text)
	return t
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
	err = p.db.Conn.QueryRow(ctx, "SELECT "+p.routine.SQL()+"($1::text, $2::text::timestamp)", action, at.UTC().Format("2006-01-02 15:04:05")).Scan(&n)
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
		return cdc.Fixable(endLockers, "%s: %w, and application and relay do not wait for each other: %s", doing, cdc.ErrBusy, lockHeld)
	case stateCheckViolation:
		return fmt.Errorf("%s: %w: rows of that day have just been written to the default partition", doing, cdc.ErrBusy)
	case stateForeignKeyViolation, stateRestrictViolation:
		return heldByKey(doing, pg)
	case stateUndefinedFunction, stateInvalidSchemaName, stateInsufficientPrivilege:
		return cdc.Fixable("set CDC_RELAY_OWNER_DSN to the connection string of the table's owner, and run `cdc-relay setup` once, or `cdc-relay retention run` from a timer",
			"%s: role %q may not maintain the partitions (%s)", doing, p.db.Server.Role, pg.Message)
	case stateDuplicateTable:
		return cdc.Fixable("rename that table with ALTER TABLE ... RENAME TO", "%s: a table of that name is in the way (%s)", doing, pg.Message)
	case stateObjectInUse:
		return cdc.Fixable("wait until it is a day old, or set CDC_RELAY_OWNER_DSN to the connection string of the table's owner and run the same `cdc-relay retention run`", "%s: the relay's role drops no rows of the last 24 hours (%s)", doing, pg.Message)
	case stateDependentObjects:
		return cdc.Fixable("drop what depends on it", "%s: %s (%s)", doing, pg.Message, strings.ReplaceAll(pg.Detail, "\n", "; "))
	}
	return fmt.Errorf("%s: PostgreSQL: %w", doing, pg)
}

// MayMaintain reports whether the role of the connection may call a table's routine, and that is this version's and has the
// rights of the table's owner.
func (d *Database) MayMaintain(ctx context.Context, table outbox.Name) (bool, error) {
	name := outbox.PostgresRoutine(table).SQL()
	var may bool
	err := d.Conn.QueryRow(ctx, `SELECT coalesce(has_schema_privilege('cdc_relay', 'USAGE') AND has_function_privilege(p.oid, 'EXECUTE')
			AND prosecdef AND prosrc = $2 AND proowner = relowner, false)
		FROM (SELECT to_regprocedure($1) AS f) AS one LEFT JOIN pg_proc p ON p.oid = f
		LEFT JOIN (pg_class c JOIN pg_namespace n ON n.oid = relnamespace) ON nspname || '.' || relname = $3`,
		name+"(text, timestamp)", outbox.PostgresRoutineBody(table), table.String()).Scan(&may)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == stateInvalidSchemaName {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the rights on %s: %w", name, err)
	}
	return may, nil
}

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
	"github.com/cdc-relay/cdc-relay/internal/scan"
)

// ReadOptions name a table that is read by SQL.
type ReadOptions struct {
	// Table is its name ("public.outbox"), SQL the name in SQL.
	Table, SQL string
	// Key is the column with the event's ID, At the one with the time. IDPrefix goes before the value of Key in IDs.
	Key, At, IDPrefix string
	// OrderBy is the column by which rows are read; "": a number that the database counts up, if Counted and there is one, or else At.
	OrderBy string
	Counted bool
	// TakenOut is a query for the names in SQL of the tables that were taken out of it; "": there are none.
	TakenOut string
	// Zone is where the clocks were that wrote the time, if its type has no zone; nil: UTC.
	Zone *cdc.Zone
	// Snapshot is an exported snapshot to read the rows in; "": each statement reads what is committed by then.
	Snapshot string
}

// TableReader reads a table and what was taken out of it. It is a [scan.Table].
type TableReader struct {
	conn  *pgx.Conn
	o     ReadOptions
	table *cdc.Table
	role  string
	// key has the ID, at the time, by the order. at and by may be absent.
	key, at, by column
	// types are the columns' types, by column, in SQL, and formats those in which the stream would send the values.
	types   []string
	formats []int16
	out     []relationOut

	batches scan.Batches
}

// column is one of a table, with its name in SQL; the zero value is none.
type column struct {
	name, sql, kind string
	nullable        bool
}

// relationOut is a table that was taken out.
type relationOut struct {
	oid, sql     string
	columns      []string
	since, until time.Time // of its rows, inclusively
}

// readerSettings make a connection that writes nothing, and that prints values as the connection for replication does. A policy would
// hide rows.
const readerSettings = NoTimeouts + `; SET default_transaction_read_only = on; SET row_security = off; SET bytea_output = hex; SET client_encoding = 'UTF8'; SET application_name = 'cdc-relay reader'`

// NoTimeouts has the server end neither statements nor the session, whatever the role's settings are.
const NoTimeouts = `SELECT set_config(name, '0', false) FROM pg_settings
	WHERE name IN ('statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout')`

// OpenTable connects to read a table. The caller closes it.
func OpenTable(ctx context.Context, o Options, r ReadOptions) (*TableReader, error) {
	conn, err := Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	t := &TableReader{conn: conn, o: r}
	if err := t.prepare(ctx, o); err != nil {
		t.Close(ctx)
		return nil, err
	}
	return t, nil
}

// Close ends the connection.
func (t *TableReader) Close(ctx context.Context) { CloseConn(ctx, t.conn.PgConn()) }

// Name returns the table's name.
func (t *TableReader) Name() string { return t.o.Table }

// Order returns the column by which rows are read.
func (t *TableReader) Order() string { return t.by.name }

// Has reports whether the table has a column.
func (t *TableReader) Has(column string) bool { return t.table.Index(column) >= 0 }

func (t *TableReader) prepare(ctx context.Context, o Options) error {
	if err := t.exec(ctx, readerSettings); err != nil {
		return t.failed(err)
	}
	tables, binary, err := ReadTables(ctx, t.conn, o, []string{t.o.Table})
	if err != nil {
		return err
	}
	if t.table = tables[t.o.Table]; t.table == nil {
		return cdc.ConfigError("table_missing", "rename it back if it was renamed; otherwise create it with `cdc-relay setup`, or correct tables[].name", "table %s does not exist", t.o.Table)
	}
	return t.describe(ctx, binary)
}

func (t *TableReader) exec(ctx context.Context, sql string) error {
	_, err := t.conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// counted is whether a column is a number that the database counts up: of a sequence that hands out one at a time.
const counted = `EXISTS (SELECT FROM pg_sequence s JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = seqrelid
	WHERE d.refclassid = 'pg_class'::regclass AND refobjid = attrelid AND refobjsubid = attnum AND deptype IN ('a', 'i') AND seqcache = 1 AND seqincrement > 0 AND NOT seqcycle)`

// describe reads the columns and finds those that rows are read by. binary is whether the stream would be.
func (t *TableReader) describe(ctx context.Context, binary bool) error {
	rows, err := t.conn.Query(ctx, `SELECT current_user, attname, format_type(atttypid, atttypmod), COALESCE(`+timeType+`, ''), NOT attnotnull, typsend <> 0, `+counted+`
		FROM pg_attribute a JOIN pg_type t ON t.oid = atttypid WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`, t.o.SQL)
	if err != nil {
		return t.failed(err)
	}
	types, formats := map[string]string{}, map[string]int16{}
	var c, grows column
	var timed string
	var sent, counts bool
	_, err = pgx.ForEachRow(rows, []any{&t.role, &c.name, &c.kind, &timed, &c.nullable, &sent, &counts}, func() error {
		c.sql = pgx.Identifier{c.name}.Sanitize()
		types[c.name] = c.kind
		if binary && sent { // others come as text also in a binary stream
			formats[c.name] = pgx.BinaryFormatCode
		}
		if c.name == t.o.Key {
			t.key = c
		}
		if c.name == t.o.OrderBy {
			t.by = c
		}
		if t.o.Counted && counts && !c.nullable && (grows.name == "" || c.name == t.o.Key) {
			grows = c
		}
		if c.name == t.o.At && timed != "" {
			t.at = column{c.name, c.sql, timed, c.nullable}
		}
		return nil
	})
	if err != nil {
		return t.failed(err)
	}
	for _, c := range t.table.Columns {
		t.types = append(t.types, types[c.Name])
		t.formats = append(t.formats, formats[c.Name])
	}
	switch {
	case t.key.name == "" || t.table.Index(t.o.Key) < 0:
		return scan.NoID(t.o.Table, t.o.Key)
	case t.o.OrderBy != "" && t.by.name == "":
		return scan.NoOrderColumn(t.o.Table, t.o.OrderBy)
	case t.o.OrderBy == "" && grows.name != "":
		t.by = grows
	case t.o.OrderBy == "":
		t.by = t.at
	}
	t.batches = scan.Batches{At: t.table.Index(t.at.name), Cost: cdc.BatchCost}
	if t.at.kind == localTime {
		t.batches.Zone = t.o.Zone
	}
	if err := t.exec(ctx, "SELECT FROM "+t.o.SQL+" LIMIT 0"); err != nil { // which takes the right to
		return t.failed(err)
	}
	return nil
}

// order returns the column by which the rows of a filter are read. Of rows that are chosen by their IDs one may have no place.
func (t *TableReader) order(f *scan.Filter) column {
	if len(f.IDs) > 0 && (t.by.name == "" || t.by.nullable) {
		return t.key
	}
	return t.by
}

// Orderly returns an error if a row that f may select has no place in the order.
func (t *TableReader) Orderly(ctx context.Context, f scan.Filter) error {
	columns := []column{t.order(&f)}
	switch timed := !f.From.IsZero() || !f.To.IsZero(); {
	case columns[0].name == "":
		return scan.NoOrder(t.o.Table)
	case timed && t.at.name == "":
		return scan.NoTime(t.o.Table)
	case timed:
		columns = append(columns, t.at)
	}
	if len(f.IDs) == 0 {
		columns = append(columns, t.key)
	}
	f.From, f.To, f.Last = time.Time{}, time.Time{}, "" // NULL is on no side of them
	for _, column := range columns {
		if !column.nullable {
			continue
		}
		var c conditions
		t.where(&c, f, scan.Window{}, nil)
		c.add("%s IS NULL", column.sql)
		found := false
		err := t.reading(ctx, func() error {
			return t.query(ctx, "SELECT FROM "+t.o.SQL+c.clause()+" LIMIT 1", c.args, nil, func([][]byte) error {
				found = true
				return nil
			})
		})
		if errors.Is(err, scan.ErrAgain) {
			return t.Orderly(ctx, f)
		}
		if err != nil {
			return err
		}
		if found {
			return scan.NoPlace(t.o.Table, column.name)
		}
	}
	return nil
}

// Bounds returns the bounds of the partitions, if they are times, and rows are read by them.
func (t *TableReader) Bounds(ctx context.Context) ([]time.Time, error) {
	if t.by.name != t.at.name {
		return nil, nil
	}
	rows, err := t.conn.Query(ctx, `SELECT unnest(regexp_match(pg_get_expr(c.relpartbound, c.oid), '^FOR VALUES FROM \(''([^'']+)''\) TO \(''([^'']+)''\)$'))
		FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid WHERE inhparent = $1::text::regclass`, t.o.SQL)
	if err != nil {
		return nil, t.failed(err)
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, t.failed(err)
	}
	var bounds []time.Time
	for _, text := range texts {
		if at := bound(text); !at.IsZero() {
			bounds = append(bounds, at)
		}
	}
	slices.SortFunc(bounds, time.Time.Compare)
	return slices.CompactFunc(bounds, time.Time.Equal), nil
}

// refresh reads which tables were taken out, and reports whether they are others than before.
func (t *TableReader) refresh(ctx context.Context) (changed bool, err error) {
	if t.o.TakenOut == "" {
		return false, nil
	}
	rows, err := t.conn.Query(ctx, `SELECT oid::text, oid::regclass::text, (SELECT array_agg(attname::text) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped)
		FROM pg_class c WHERE c.oid IN (SELECT name::regclass FROM (`+t.o.TakenOut+`) AS taken (name)) ORDER BY c.oid`)
	if err != nil {
		return false, t.failed(err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r relationOut, err error) {
		err = row.Scan(&r.oid, &r.sql, &r.columns)
		return r, err
	})
	if err != nil {
		return false, t.failed(err)
	}
	for i := range found {
		old := slices.IndexFunc(t.out, func(r relationOut) bool { return r.oid == found[i].oid })
		if old >= 0 {
			found[i].since, found[i].until = t.out[old].since, t.out[old].until
			continue
		}
		changed = true
		if err := t.span(ctx, &found[i]); errors.Is(err, scan.ErrGone) {
			return true, nil // the next look tells
		} else if err != nil {
			return false, err
		}
	}
	changed = changed || len(found) < len(t.out)
	t.out = found
	return changed, nil
}

// span reads from when to when the rows of r are.
func (t *TableReader) span(ctx context.Context, r *relationOut) error {
	var since, until *int64
	micros := "(extract(epoch FROM GREATEST(LEAST(%s(" + t.at.sql + "), '9999-12-31'), '0001-01-02')) * 1000000)::bigint" // it may be infinite
	query := fmt.Sprintf("SELECT "+micros+", "+micros+" FROM %s", "min", "max", r.sql)
	if err := t.conn.QueryRow(ctx, query).Scan(&since, &until); err != nil {
		return t.failed(err)
	}
	if since != nil && until != nil {
		r.since, r.until = time.UnixMicro(*since), time.UnixMicro(*until)
	}
	return nil
}

// within reports whether it has rows of a window.
func (r *relationOut) within(w scan.Window) bool {
	return !r.until.IsZero() && !r.until.Before(w.Since) && (w.Until.IsZero() || r.since.Before(w.Until))
}

func (t *TableReader) failed(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Errorf("read table %s: %w", t.o.Table, err)
	}
	switch pg.Code {
	case stateInsufficientPrivilege, stateInvalidSchemaName:
		return scan.MayNotRead(t.o.Table, pg.Message)
	case stateInvalidText, stateInvalidDatetime:
		return scan.NotAnID(t.o.Table, t.o.Key, t.key.kind, pg.Message)
	case stateUndefinedTable:
		return scan.Gone(t.o.Table, pg.Message)
	}
	return fmt.Errorf("read table %s: PostgreSQL: %w", t.o.Table, pg)
}

// SQLSTATEs of what reading a table meets.
const (
	stateInvalidText     = "22P02"
	stateInvalidDatetime = "22007"
	stateUndefinedTable  = "42P01"
	stateLockTimeout     = "55P03"
	stateDeadlock        = "40P01"
)

// statesUnreadable are those of a row that the server cannot send: text that is not valid in its encoding, or has no equivalent in UTF-8,
// or more than 1 GB.
const statesUnreadable = "22021 22P05 54000"

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
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// ReadOptions name a table that is read by SQL.
type ReadOptions = tableread.ReadOptions

// TableReader reads a table and what was taken out of it. It is a [tableread.Table], and its own [tableread.Driver].
type TableReader struct {
	tableread.Reader

	conn *pgx.Conn
	role string
	// formats are those in which the stream would send the columns' values.
	formats []int16
}

// readerSettings make a connection that writes nothing, and that prints values as the connection for replication does. A policy would
// hide rows.
const readerSettings = NoTimeouts + `; SET default_transaction_read_only = on; SET row_security = off; SET bytea_output = hex; SET extra_float_digits = 1; SET client_encoding = 'UTF8'; SET application_name = 'cdc-relay reader'`

// NoTimeouts has the server end neither statements nor the session, whatever the role's settings are.
const NoTimeouts = `SELECT set_config(name, '0', false) FROM pg_settings
	WHERE name IN ('statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout')`

// OpenTable connects to read a table. The caller closes it.
func OpenTable(ctx context.Context, o Options, r ReadOptions) (*TableReader, error) {
	conn, err := Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	t := &TableReader{conn: conn}
	t.Reader = tableread.Reader{
		Driver: t, Options: r, Batches: tableread.Batches{Cost: cdc.BatchCost},
		Dialect: tableread.Dialect{Time: "2006-01-02 15:04:05.999999-07", LocalTime: localTime, Tuples: true},
	}
	if err := t.prepare(ctx, o); err != nil {
		t.Close(ctx)
		return nil, err
	}
	return t, nil
}

// Close ends the connection.
func (t *TableReader) Close(ctx context.Context) { CloseConn(ctx, t.conn.PgConn()) }

func (t *TableReader) prepare(ctx context.Context, o Options) error {
	if err := t.exec(ctx, readerSettings); err != nil {
		return t.failed(err)
	}
	tables, binary, err := ReadTables(ctx, t.conn, o, []string{t.Options.Table})
	if err != nil {
		return err
	}
	if t.Table = tables[t.Options.Table]; t.Table == nil {
		return cdc.ConfigError("table_missing", "rename it back if it was renamed; otherwise create it with `cdc-relay setup`, or correct tables[].name", "table %s does not exist", t.Options.Table)
	}
	if err := t.describe(ctx, binary); err != nil {
		return err
	}
	return t.failed(t.exec(ctx, "RESET search_path")) // a condition of the user, and the operators of his types, may count on it
}

func (t *TableReader) exec(ctx context.Context, sql string) error {
	_, err := t.conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// counted is whether a column is a number that the database counts up: of a sequence that hands out one at a time.
const counted = `EXISTS (SELECT FROM pg_sequence s JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = seqrelid
	WHERE d.refclassid = 'pg_class'::regclass AND refobjid = attrelid AND refobjsubid = attnum AND deptype IN ('a', 'i') AND seqcache = 1 AND seqincrement > 0 AND NOT seqcycle)`

// unique is whether a column is that of a unique index, or in a partitioned table one of several, as it must be.
const unique = `EXISTS (SELECT FROM pg_index i WHERE i.indrelid = attrelid AND i.indisunique AND i.indpred IS NULL
	AND (i.indnkeyatts = 1 AND i.indkey[0] = attnum OR attnum = ANY (i.indkey) AND (SELECT relkind FROM pg_class WHERE oid = attrelid) = 'p'))`

// describe reads the columns and finds those that rows are read by. binary is whether the stream would be.
func (t *TableReader) describe(ctx context.Context, binary bool) error {
	rows, _ := t.conn.Query(ctx, `SELECT current_user, attname, format_type(atttypid, atttypmod), COALESCE(`+timeType+`, ''), NOT attnotnull, typsend <> 0, `+counted+`, `+unique+`
		FROM pg_attribute a JOIN pg_type t ON t.oid = atttypid WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`, t.Options.SQL) // ForEachRow returns its error
	types, formats := map[string]string{}, map[string]int16{}
	var columns []tableread.Column
	var c tableread.Column
	var sent bool
	_, err := pgx.ForEachRow(rows, []any{&t.role, &c.Name, &c.Kind, &c.Time, &c.Nullable, &sent, &c.Counted, &c.Unique}, func() error {
		c.SQL, c.KeyText, c.Sorts = pgx.Identifier{c.Name}.Sanitize(), "%s::text", c.Kind == "uuid"
		types[c.Name] = c.Kind
		if binary && sent { // others come as text also in a binary stream
			formats[c.Name] = pgx.BinaryFormatCode
		}
		columns = append(columns, c)
		return nil
	})
	if err != nil {
		return t.failed(err)
	}
	for _, c := range t.Table.Columns {
		name := pgx.Identifier{c.Name}.Sanitize()
		t.Cells = append(t.Cells, tableread.Cell{SQL: name, Absent: "NULL::" + types[c.Name] + " AS " + name, Text: name + "::text"})
		t.formats = append(t.formats, formats[c.Name])
	}
	if err := t.Choose(columns); err != nil {
		return err
	}
	return t.failed(t.exec(ctx, "SELECT FROM "+t.Options.SQL+" LIMIT 0")) // which takes the right to
}

// Bounds returns the bounds of the partitions, if they are times, and rows are read by them.
func (t *TableReader) Bounds(ctx context.Context) ([]time.Time, error) {
	if t.By.Name != t.At.Name {
		return nil, nil
	}
	rows, _ := t.conn.Query(ctx, `SELECT unnest(regexp_match(pg_get_expr(c.relpartbound, c.oid), '^FOR VALUES FROM \(''([^'']+)''\) TO \(''([^'']+)''\)$'))
		FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid WHERE inhparent = $1::text::regclass`, t.Options.SQL) // CollectRows returns its error
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

// TakenOut implements [tableread.Driver].
func (t *TableReader) TakenOut(ctx context.Context) ([]tableread.TakenOut, error) {
	rows, _ := t.conn.Query(ctx, `SELECT oid::text, oid::regclass::text, (SELECT array_agg(attname::text) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped)
		FROM pg_class c WHERE c.oid IN (SELECT name::regclass FROM (`+t.Options.TakenOut+`) AS taken (name)) ORDER BY c.oid`) // CollectRows returns its error
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (out tableread.TakenOut, err error) {
		err = row.Scan(&out.ID, &out.SQL, &out.Columns)
		return out, err
	})
	return found, t.failed(err)
}

// Span implements [tableread.Driver].
func (t *TableReader) Span(ctx context.Context, out *tableread.TakenOut) error {
	var since, until *int64
	micros := "(extract(epoch FROM GREATEST(LEAST(%s(" + t.At.SQL + "), '9999-12-31'), '0001-01-02')) * 1000000)::bigint" // it may be infinite
	query := fmt.Sprintf("SELECT "+micros+", "+micros+" FROM %s", "min", "max", out.SQL)
	if err := t.conn.QueryRow(ctx, query).Scan(&since, &until); err != nil {
		return t.failed(err)
	}
	if since != nil && until != nil {
		out.Since, out.Until = time.UnixMicro(*since), time.UnixMicro(*until)
	}
	return nil
}

func (t *TableReader) failed(err error) error {
	if err == nil {
		return nil
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Errorf("read table %s: %w", t.Options.Table, err)
	}
	switch pg.Code {
	case stateInsufficientPrivilege, stateInvalidSchemaName:
		return tableread.MayNotRead(t.Options.Table, pg.Message)
	case stateInvalidText, stateInvalidDatetime:
		return tableread.NotAnID(t.Options.Table, t.Options.Key, t.Key.Kind, pg.Message)
	case stateUndefinedTable:
		return tableread.Gone(t.Options.Table, pg.Message)
	}
	return fmt.Errorf("read table %s: PostgreSQL: %w", t.Options.Table, pg)
}

// SQLSTATEs of what reading a table meets.
const (
	stateInvalidText     = "22P02"
	stateInvalidDatetime = "22007"
	stateUndefinedTable  = "42P01"
)

// statesUnreadable are those of a row that the server cannot send: text that is not valid in its encoding, or has no equivalent in UTF-8,
// or more than 1 GB.
const statesUnreadable = "22021 22P05 54000"

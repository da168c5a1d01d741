package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-sql-driver/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/scan"
)

// ReadOptions name a table that is read by SQL.
type ReadOptions struct {
	// Table is its name ("orders.outbox").
	Table string
	// Key is the column with the event's ID, At the one with the time. IDPrefix goes before the value of Key in IDs.
	Key, At, IDPrefix string
	// OrderBy is the column by which rows are read; "": a number that the database counts up, if Counted and there is one, or else At.
	OrderBy string
	Counted bool
	// Zone is where the clocks were that wrote the time, if its type has no zone; nil: UTC.
	Zone *cdc.Zone
	// TakenOut is a query for the names of the tables that were taken out of it and that the user may see, Routine the procedure that
	// knows all of them; "": there are none. Spare is the name of one that gets its rows, and then another name, while it is listed.
	TakenOut, Routine, Spare string
}

// TableReader reads a table and what was taken out of it. It is a [scan.Table].
type TableReader struct {
	db    *sql.DB
	conn  *sql.Conn
	cfg   *mysql.Config
	o     ReadOptions
	sql   string
	table *cdc.Table
	// key has the ID, at the time, by the order. at and by may be absent.
	key, at, by column
	cells       []cell
	out         []tableOut
	batches     scan.Batches
}

// column is one of a table, with its name in SQL; the zero value is none.
type column struct {
	name, sql string
	cell      cell
	nullable  bool
}

// tableOut is a table that was taken out.
type tableOut struct {
	name, sql    string
	columns      []string
	since, until time.Time // of its rows, inclusively
}

// readerSettings make a connection that writes nothing and that may stop in the middle of a result while Kafka is away. CHAR columns are
// not to be padded.
func readerSettings() []string {
	return []string{
		"SET SESSION TRANSACTION READ ONLY", "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SET SESSION sql_mode = ''",
		"SET NAMES utf8mb4", "SET SESSION net_write_timeout = 86400", "SET SESSION wait_timeout = 86400",
	}
}

// OpenTable connects to read a table. The caller closes it.
func OpenTable(ctx context.Context, o Options, r ReadOptions) (*TableReader, error) {
	cfg, err := o.Endpoint(ctx)
	if err != nil {
		return nil, err
	}
	cfg.ReadTimeout = 0          // a filter without an index takes its time
	cfg.InterpolateParams = true // to prepare a statement for each page takes longer than to run it
	db, err := Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	schema, table, _ := strings.Cut(r.Table, ".")
	t := &TableReader{db: db, cfg: cfg, o: r, sql: QuoteName(schema) + "." + QuoteName(table)}
	if err := t.prepare(ctx); err != nil {
		t.Close(ctx)
		return nil, err
	}
	return t, nil
}

// Close ends the connection.
func (t *TableReader) Close(context.Context) {
	if t.conn != nil {
		_ = t.conn.Close()
	}
	_ = t.db.Close()
}

// Name returns the table's name.
func (t *TableReader) Name() string { return t.o.Table }

// Order returns the column by which rows are read.
func (t *TableReader) Order() string { return t.by.name }

// Has reports whether the table has a column.
func (t *TableReader) Has(column string) bool { return t.table.Index(column) >= 0 }

func (t *TableReader) prepare(ctx context.Context) (err error) {
	if t.conn, err = t.db.Conn(ctx); err != nil {
		return connectError(err, t.cfg)
	}
	vars, err := ReadVariables(ctx, t.conn)
	if err != nil {
		return err
	}
	for _, setting := range readerSettings() {
		if _, err := t.conn.ExecContext(ctx, setting); err != nil {
			return t.failed(err)
		}
	}
	tables, err := ReadTables(ctx, t.conn, []string{t.o.Table}, vars.Caseless())
	if err != nil {
		return err
	}
	if t.table = tables[t.o.Table]; t.table == nil {
		return scan.MayNotRead(t.o.Table, "it does not exist, or the user may not see it")
	}
	for i := range t.table.Columns {
		if c := &t.table.Columns[i]; c.Form == cdc.FormMySQLJSON {
			c.Form = cdc.FormText
		}
	}
	return t.describe(ctx)
}

// describe reads how the columns are to be selected, and finds those that rows are read by.
func (t *TableReader) describe(ctx context.Context) error {
	schema, table, _ := strings.Cut(t.o.Table, ".")
	kinds, nullable, grows := map[string]string{}, map[string]bool{}, ""
	err := t.query(ctx, `SELECT column_name, data_type, is_nullable, extra FROM information_schema.columns WHERE table_schema = ? AND table_name = ?`,
		[]any{schema, table}, func(values []sql.RawBytes) error {
			name := string(values[0])
			kinds[name], nullable[name] = strings.ToLower(string(values[1])), string(values[2]) == "YES"
			if t.o.Counted && strings.Contains(strings.ToLower(string(values[3])), "auto_increment") { // a table has one at most
				grows = name
			}
			return nil
		})
	if err != nil {
		return err
	}
	for _, c := range t.table.Columns {
		t.cells = append(t.cells, cellOf(kinds[c.Name], c))
	}
	find := func(name string) column {
		i := t.table.Index(name)
		if name == "" || i < 0 {
			return column{}
		}
		return column{name, QuoteName(name), t.cells[i], nullable[name]}
	}
	if t.key = find(t.o.Key); t.key.name == "" {
		return scan.NoID(t.o.Table, t.o.Key)
	}
	if slices.Contains([]string{"datetime", "timestamp", "date"}, kinds[t.o.At]) {
		t.at = find(t.o.At)
	}
	t.by = find(cmp.Or(t.o.OrderBy, grows, t.at.name))
	if t.o.OrderBy != "" && t.by.name == "" {
		return scan.NoOrderColumn(t.o.Table, t.o.OrderBy)
	}
	t.batches = scan.Batches{At: t.table.Index(t.at.name)}
	if kinds[t.at.name] == localTime {
		t.batches.Zone = t.o.Zone
	}
	return nil
}

// order returns the column by which the rows of a filter are read. Of rows that are chosen by their IDs one may have no place.
func (t *TableReader) order(f *scan.Filter) *column {
	if len(f.IDs) > 0 && (t.by.name == "" || t.by.nullable) {
		return &t.key
	}
	return &t.by
}

// Orderly returns an error if a row that f may select has no place in the order.
func (t *TableReader) Orderly(ctx context.Context, f scan.Filter) error {
	columns := []*column{t.order(&f)}
	switch timed := !f.From.IsZero() || !f.To.IsZero(); {
	case columns[0].name == "":
		return scan.NoOrder(t.o.Table)
	case timed && t.at.name == "":
		return scan.NoTime(t.o.Table)
	case timed:
		columns = append(columns, &t.at)
	}
	if len(f.IDs) == 0 {
		columns = append(columns, &t.key)
	}
	f.From, f.To, f.Last = time.Time{}, time.Time{}, "" // NULL is on no side of them
	for _, column := range columns {
		if !column.nullable {
			continue
		}
		var c conditions
		if err := t.where(&c, f, scan.Window{}, nil); err != nil {
			return err
		}
		c.add(column.sql + " IS NULL")
		err := t.query(ctx, "SELECT 1 FROM "+t.sql+c.clause()+" LIMIT 1", c.args, func([]sql.RawBytes) error {
			return scan.NoPlace(t.o.Table, column.name)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Bounds returns the bounds of the partitions, if they are times, and rows are read by them.
func (t *TableReader) Bounds(ctx context.Context) (bounds []time.Time, err error) {
	if t.by.name != t.at.name {
		return nil, nil
	}
	schema, table, _ := strings.Cut(t.o.Table, ".")
	err = t.query(ctx, `SELECT partition_description FROM information_schema.partitions WHERE table_schema = ? AND table_name = ?
		AND partition_description IS NOT NULL ORDER BY partition_ordinal_position`, []any{schema, table}, func(values []sql.RawBytes) error {
		if at, err := t.parseTime(strings.Trim(string(values[0]), "'")); err == nil {
			bounds = append(bounds, at)
		}
		return nil
	})
	return bounds, err
}

// parseTime parses a value of the column with the time, or a partition's bound.
func (t *TableReader) parseTime(text string) (time.Time, error) {
	layout := "2006-01-02 15:04:05.999999"
	if len(text) == len(time.DateOnly) {
		layout = time.DateOnly
	}
	shown, err := time.Parse(layout, text)
	if err != nil {
		return time.Time{}, err
	}
	return t.batches.Zone.Moment(shown), nil
}

// refresh reads which tables were taken out, and reports whether they are others than before.
func (t *TableReader) refresh(ctx context.Context) (changed bool, err error) {
	if t.o.TakenOut == "" {
		return false, nil
	}
	names, err := t.takenOut(ctx)
	if err != nil {
		return false, err
	}
	found := make([]tableOut, 0, len(names))
	for _, name := range names {
		old := slices.IndexFunc(t.out, func(o tableOut) bool { return o.name == name })
		if old >= 0 && name != t.o.Spare {
			found = append(found, t.out[old])
			continue
		}
		out, err := t.span(ctx, name)
		if errors.Is(err, scan.ErrGone) {
			return true, nil // the next look tells
		}
		if err != nil {
			return false, err
		}
		changed = changed || old < 0 || !out.since.Equal(t.out[old].since) || !out.until.Equal(t.out[old].until)
		found = append(found, out)
	}
	changed = changed || len(found) < len(t.out)
	t.out = found
	return changed, nil
}

// takenOut returns the names of what was taken out. The catalog shows only what the user has rights on, which the procedure does not
// ask for.
func (t *TableReader) takenOut(ctx context.Context) (names []string, err error) {
	err = t.query(ctx, t.o.TakenOut, nil, func(values []sql.RawBytes) error {
		names = append(names, string(values[0]))
		return nil
	})
	if err != nil || t.o.Routine == "" {
		return names, err
	}
	schema, _, _ := strings.Cut(t.o.Table, ".")
	err = t.query(ctx, "CALL "+t.o.Routine+"('list', '')", nil, func(values []sql.RawBytes) error {
		if name := schema + "." + string(values[0]); len(values) > 3 && values[3] != nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
		return nil
	})
	if missing(err) {
		err = nil // not maintained by the relay, or read as the owner
	}
	return names, err
}

// lastYear is the last one that a DATETIME can have.
const lastYear = 9999

// span reads the columns of what was taken out, and from when to when its rows are.
func (t *TableReader) span(ctx context.Context, name string) (tableOut, error) {
	schema, table, _ := strings.Cut(name, ".")
	out := tableOut{name: name, sql: QuoteName(schema) + "." + QuoteName(table)}
	err := t.query(ctx, "SELECT column_name FROM information_schema.columns WHERE table_schema = ? AND table_name = ?", []any{schema, table}, func(values []sql.RawBytes) error {
		out.columns = append(out.columns, string(values[0]))
		return nil
	})
	if err != nil {
		return out, err
	}
	return out, t.query(ctx, "SELECT MIN("+t.at.sql+"), MAX("+t.at.sql+") FROM "+out.sql, nil, func(values []sql.RawBytes) (err error) {
		if values[0] == nil {
			return nil
		}
		if out.until, err = t.parseTime(string(values[1])); err != nil || out.until.IsZero() { // a day 0
			out.until = time.Date(lastYear, 12, 31, 0, 0, 0, 0, time.UTC)
		}
		if out.since, err = t.parseTime(string(values[0])); err != nil {
			out.since = time.Time{}
		}
		return nil
	})
}

// within reports whether it has rows of a window.
func (o *tableOut) within(w scan.Window) bool {
	return !o.until.IsZero() && !o.until.Before(w.Since) && (w.Until.IsZero() || o.since.Before(w.Until))
}

// query runs a query and calls row for each row, whose values are valid until it returns.
func (t *TableReader) query(ctx context.Context, query string, args []any, row func([]sql.RawBytes) error) error {
	found, err := t.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return t.failed(err)
	}
	defer func() { _ = found.Close() }()
	columns, err := found.Columns()
	if err != nil {
		return t.failed(err)
	}
	values, places := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
	for i := range values {
		places[i] = &values[i]
	}
	for found.Next() {
		if err := found.Scan(places...); err != nil {
			return t.failed(err)
		}
		if err := row(values); err != nil {
			return err
		}
	}
	return t.failed(found.Err())
}

func (t *TableReader) failed(err error) error {
	if err == nil {
		return nil
	}
	code, said := ErrorNumber(err)
	switch code {
	case 0:
		return fmt.Errorf("read table %s: %w", t.o.Table, err)
	case gomysql.ER_TABLEACCESS_DENIED_ERROR, gomysql.ER_DBACCESS_DENIED_ERROR, gomysql.ER_COLUMNACCESS_DENIED_ERROR:
		return scan.MayNotRead(t.o.Table, said)
	case gomysql.ER_NO_SUCH_TABLE:
		return scan.Gone(t.o.Table, said)
	case gomysql.ER_SP_DOES_NOT_EXIST, gomysql.ER_PROCACCESS_DENIED_ERROR:
		return err // the caller knows them
	}
	return fmt.Errorf("read table %s: %s (%d)", t.o.Table, said, code)
}

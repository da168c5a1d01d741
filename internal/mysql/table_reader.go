package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-sql-driver/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// ReadOptions name a table that is read by SQL.
type ReadOptions = tableread.ReadOptions

// TableReader reads a table and what was taken out of it. It is a [tableread.Table], and its own [tableread.Driver].
type TableReader struct {
	tableread.Reader

	db    *sql.DB
	conn  *sql.Conn
	cfg   *mysql.Config
	cells []cell
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
	r.SQL = quoteTable(r.Table)
	t := &TableReader{db: db, cfg: cfg}
	t.Reader = tableread.Reader{
		Driver: t, Options: r,
		Dialect: tableread.Dialect{Time: "2006-01-02 15:04:05.999999", LocalTime: localTime, Beside: true},
	}
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
	tables, err := ReadTables(ctx, t.conn, []string{t.Options.Table}, vars.Caseless())
	if err != nil {
		return err
	}
	if t.Table = tables[t.Options.Table]; t.Table == nil {
		return tableread.MayNotRead(t.Options.Table, "it does not exist, or the user may not see it")
	}
	for i := range t.Table.Columns {
		if c := &t.Table.Columns[i]; c.Form == cdc.FormMySQLJSON {
			c.Form = cdc.FormText
		}
	}
	return t.describe(ctx)
}

// describe reads how the columns are to be selected, and finds those that rows are read by.
func (t *TableReader) describe(ctx context.Context) error {
	schema, table, _ := strings.Cut(t.Options.Table, ".")
	described, scales := map[string]tableread.Column{}, map[string]string{}
	err := t.Query(ctx, `SELECT column_name, data_type, is_nullable, extra, numeric_scale FROM information_schema.columns WHERE table_schema = ? AND table_name = ?`,
		[]any{schema, table}, nil, func(values [][]byte) error {
			c := tableread.Column{
				Name: string(values[0]), SQL: QuoteName(string(values[0])), Kind: strings.ToLower(string(values[1])), KeyText: "CAST(%s AS CHAR)",
				Nullable: string(values[2]) == "YES", Counted: strings.Contains(strings.ToLower(string(values[3])), "auto_increment"),
			}
			if slices.Contains([]string{"datetime", "timestamp", "date"}, c.Kind) {
				c.Time = c.Kind
			}
			described[c.Name], scales[c.Name] = c, string(values[4])
			return nil
		})
	if err != nil {
		return err
	}
	columns := make([]tableread.Column, len(t.Table.Columns))
	for i, c := range t.Table.Columns {
		columns[i] = described[c.Name]
		cell, name := cellOf(columns[i].Kind, scales[c.Name], c), QuoteName("c"+strconv.Itoa(i))
		t.cells = append(t.cells, cell)
		t.Cells = append(t.Cells, tableread.Cell{SQL: cell.sql + " AS " + name, Absent: "NULL AS " + name, Text: cell.text()})
		if columns[i].Kind, columns[i].Sorts = cell.idKind(), cell.hex; cell.hex {
			columns[i].KeyText = "HEX(%s)"
		}
	}
	if err := t.Choose(columns); err != nil {
		return err
	}
	if described[t.By.Name].Kind == "float" { // the server prints six digits of it, which are another value
		return cdc.ConfigError(tableread.ReasonNoOrder, "name another column in tables[].order_by, or make it a DOUBLE", "table %s is read by column %s, of type FLOAT, whose values do not compare with what the server prints of them",
			t.Options.Table, t.By.Name)
	}
	if !t.Options.Counted {
		return nil
	}
	return t.Query(ctx, `SELECT index_name FROM information_schema.statistics WHERE table_schema = ? AND table_name = ? AND non_unique = 0 GROUP BY index_name
		HAVING SUM(column_name = ? AND sub_part IS NULL) = 1 AND (COUNT(*) = 1
		OR EXISTS (SELECT 1 FROM information_schema.partitions WHERE table_schema = ? AND table_name = ? AND partition_name IS NOT NULL))`,
		[]any{schema, table, t.Key.Name, schema, table}, nil, func([][]byte) error {
			t.Key.Unique = true
			return nil
		})
}

// Bounds returns the bounds of the partitions, if they are times, and rows are read by them.
func (t *TableReader) Bounds(ctx context.Context) (bounds []time.Time, err error) {
	if t.By.Name != t.At.Name {
		return nil, nil
	}
	schema, table, _ := strings.Cut(t.Options.Table, ".")
	err = t.Query(ctx, `SELECT partition_description FROM information_schema.partitions WHERE table_schema = ? AND table_name = ?
		AND partition_description IS NOT NULL ORDER BY partition_ordinal_position`, []any{schema, table}, nil, func(values [][]byte) error {
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
	return t.Batches.Zone.Moment(shown), nil
}

// TakenOut implements [tableread.Driver]. The catalog shows only what the user has rights on, which the procedure does not ask for.
func (t *TableReader) TakenOut(ctx context.Context) (out []tableread.TakenOut, err error) {
	add := func(name string) {
		if !slices.ContainsFunc(out, func(o tableread.TakenOut) bool { return o.ID == name }) {
			out = append(out, tableread.TakenOut{ID: name, SQL: quoteTable(name), Spare: name == t.Options.Spare})
		}
	}
	err = t.Query(ctx, t.Options.TakenOut, nil, nil, func(values [][]byte) error {
		add(string(values[0]))
		return nil
	})
	if err != nil || t.Options.Routine == "" {
		return out, err
	}
	schema, _, _ := strings.Cut(t.Options.Table, ".")
	err = t.Query(ctx, "CALL "+t.Options.Routine+"('list', '')", nil, nil, func(values [][]byte) error {
		if len(values) > 3 && values[3] != nil {
			add(schema + "." + string(values[0]))
		}
		return nil
	})
	if missing(err) {
		err = nil // not maintained by the relay, or read as the owner
	}
	return out, err
}

// lastYear is the last one that a DATETIME can have.
const lastYear = 9999

// Span implements [tableread.Driver].
func (t *TableReader) Span(ctx context.Context, out *tableread.TakenOut) error {
	schema, table, _ := strings.Cut(out.ID, ".")
	err := t.Query(ctx, "SELECT column_name FROM information_schema.columns WHERE table_schema = ? AND table_name = ?", []any{schema, table}, nil, func(values [][]byte) error {
		out.Columns = append(out.Columns, string(values[0]))
		return nil
	})
	if err != nil {
		return err
	}
	return t.Query(ctx, "SELECT MIN("+t.At.SQL+"), MAX("+t.At.SQL+") FROM "+out.SQL, nil, nil, func(values [][]byte) (err error) {
		if values[0] == nil {
			return nil
		}
		if out.Until, err = t.parseTime(string(values[1])); err != nil || out.Until.IsZero() { // a day 0
			out.Until = time.Date(lastYear, 12, 31, 0, 0, 0, 0, time.UTC)
		}
		if out.Since, err = t.parseTime(string(values[0])); err != nil {
			out.Since = time.Time{}
		}
		return nil
	})
}

func (t *TableReader) failed(err error) error {
	if err == nil {
		return nil
	}
	code, said := ErrorNumber(err)
	switch code {
	case 0:
		return fmt.Errorf("read table %s: %w", t.Options.Table, err)
	case gomysql.ER_TABLEACCESS_DENIED_ERROR, gomysql.ER_DBACCESS_DENIED_ERROR, gomysql.ER_COLUMNACCESS_DENIED_ERROR:
		return tableread.MayNotRead(t.Options.Table, said)
	case gomysql.ER_NO_SUCH_TABLE:
		return tableread.Gone(t.Options.Table, said)
	case gomysql.ER_SP_DOES_NOT_EXIST, gomysql.ER_PROCACCESS_DENIED_ERROR:
		return err // the caller knows them
	}
	return fmt.Errorf("read table %s: %s (%d)", t.Options.Table, said, code)
}

package writer_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"strings"
)

// openShop opens a fake database that prints statements, so that examples run without a server.
func openShop() *sql.DB { return sql.OpenDB(shop{}) }

type shop struct{}

func (s shop) Connect(context.Context) (driver.Conn, error) { return s, nil }
func (s shop) Driver() driver.Driver                        { return nil }
func (s shop) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (s shop) Close() error                                 { return nil }

func (s shop) Begin() (driver.Tx, error) {
	fmt.Fprintln(os.Stdout, "BEGIN")
	return s, nil
}

func (s shop) Commit() error {
	fmt.Fprintln(os.Stdout, "COMMIT")
	return nil
}

func (s shop) Rollback() error {
	fmt.Fprintln(os.Stdout, "ROLLBACK")
	return nil
}

func (s shop) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	into, _, _ := strings.Cut(query, " (")
	var shown []string
	for i, a := range args {
		switch v := a.Value.(type) {
		case string:
			if len(args) != columns || i > 0 && v != "application/json" { // IDs differ from run to run
				shown = append(shown, v)
			}
		case []byte:
			shown = append(shown, string(v))
		case int64:
			shown = append(shown, fmt.Sprint(v))
		}
	}
	fmt.Fprintf(os.Stdout, "%s: %s\n", into, strings.Join(shown, ", "))
	return driver.RowsAffected(1), nil
}

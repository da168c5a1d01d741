package gormwriter_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/utils/tests"

	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/gormwriter"
)

// shop is a fake database that prints statements, so that the example runs without a server.
type shop struct{}

func (s shop) Connect(context.Context) (driver.Conn, error) { return s, nil }
func (s shop) Driver() driver.Driver                        { return nil }
func (s shop) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (s shop) Close() error                                 { return nil }
func (s shop) Begin() (driver.Tx, error)                    { return s, s.print("BEGIN") }
func (s shop) Commit() error                                { return s.print("COMMIT") }
func (s shop) Rollback() error                              { return s.print("ROLLBACK") }

func (s shop) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	into, _, _ := strings.Cut(query, " (")
	return driver.RowsAffected(1), s.print(into)
}

func (s shop) print(line string) error {
	fmt.Println(line)
	return nil
}

// The order and its event are committed or rolled back together. Tests with servers are in test/writer.
func ExampleTx() {
	pool := sql.OpenDB(shop{})
	defer pool.Close()
	db, err := gorm.Open(tests.DummyDialector{}, &gorm.Config{ConnPool: pool}) // applications use gorm.io/driver/postgres or mysql
	if err != nil {
		fmt.Println(err)
		return
	}
	events, _ := writer.New(writer.Postgres)
	err = db.Transaction(func(db *gorm.DB) error {
		if err := db.Exec(`UPDATE orders SET (paid) = (true)`).Error; err != nil {
			return err
		}
		event, err := writer.JSON("Order", "o-1", "OrderPaid", true)
		if err != nil {
			return err
		}
		tx, err := gormwriter.Tx(db)
		if err != nil {
			return err
		}
		return events.Append(context.Background(), tx, event)
	})
	fmt.Println(err)
	_, err = gormwriter.Tx(db)
	fmt.Println(errors.Is(err, writer.ErrNoTransaction))
	// Output:
	// BEGIN
	// UPDATE orders SET
	// INSERT INTO "outbox"
	// COMMIT
	// <nil>
	// true
}

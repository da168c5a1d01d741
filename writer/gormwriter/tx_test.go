package gormwriter_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

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
	fmt.Fprintln(os.Stdout, line)
	return nil
}

// The order and its event are committed or rolled back together. Tests with servers are in test/writer.
func Example() {
	db, closeShop := openShop() // applications call gorm.Open with gorm.io/driver/postgres or mysql
	defer closeShop()
	events, _ := writer.New(writer.Postgres)
	event, _ := writer.JSON("Order", "o-1", "OrderPaid", true)
	err := writer.Run(context.Background(), gormwriter.DB(db, writer.Postgres), events, func(_ context.Context, tx *gorm.DB, u *writer.Unit) error {
		u.Add(event)
		return tx.Exec(`UPDATE orders SET (paid) = (true)`).Error
	})
	fmt.Println(err)
	// Output:
	// BEGIN
	// UPDATE orders SET
	// INSERT INTO "outbox"
	// COMMIT
	// <nil>
}

// In a transaction of your own, Append is one more statement.
func ExampleTx() {
	db, closeShop := openShop()
	defer closeShop()
	events, _ := writer.New(writer.Postgres)
	event, _ := writer.JSON("Order", "o-1", "OrderPaid", true)
	err := db.Transaction(func(db *gorm.DB) error {
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
	// INSERT INTO "outbox"
	// COMMIT
	// <nil>
	// true
}

func openShop() (db *gorm.DB, closeShop func()) {
	pool := sql.OpenDB(shop{})
	db, err := gorm.Open(tests.DummyDialector{}, &gorm.Config{ConnPool: pool})
	if err != nil {
		panic(err)
	}
	return db, func() { _ = pool.Close() }
}

// A *gorm.DB that is in no transaction is refused by each statement.
func TestDBWithoutATransaction(t *testing.T) {
	db, closeShop := openShop()
	defer closeShop()
	d := gormwriter.DB(db, writer.Postgres)
	_, executed := d.Exec(t.Context(), db, "DELETE FROM outbox")
	_, queried := d.Query(t.Context(), db, "SELECT 1") //nolint:gocritic // there are none
	for _, err := range []error{executed, queried, d.Commit(t.Context(), db), d.Rollback(t.Context(), db)} {
		if !errors.Is(err, writer.ErrNoTransaction) {
			t.Errorf("error %v", err)
		}
	}
}

// A *gorm.DB that holds an error, as after a rollback to a savepoint that failed, still gives its connection back.
func TestEndOfARefusedTransaction(t *testing.T) {
	db, closeShop := openShop()
	defer closeShop()
	d := gormwriter.DB(db, writer.Postgres)
	for name, end := range map[string]func(context.Context, *gorm.DB) error{"commit": d.Commit, "rollback": d.Rollback} {
		tx, err := d.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		broken := errors.New("savepoint does not exist")
		_ = tx.AddError(broken)
		err = end(t.Context(), tx)
		var unknown *writer.CommitUnknownError
		if committed := writer.CommitError(t.Context(), err); name == "commit" && (!errors.Is(committed, broken) || errors.As(committed, &unknown)) || name == "rollback" && err != nil {
			t.Errorf("%s: error %v", name, err)
		}
		if n := db.ConnPool.(*sql.DB).Stats().InUse; n > 0 {
			t.Errorf("%s: %d connections are in use", name, n)
		}
	}
}

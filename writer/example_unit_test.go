package writer_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/cdc-relay/cdc-relay/writer"
)

// Cart is an aggregate: its methods raise events.
type Cart struct {
	writer.Raised

	ID    string
	Items int
}

func (c *Cart) Put(item string) error {
	c.Items++
	event, err := writer.JSON("Cart", c.ID, "ItemPut", map[string]string{"item": item})
	if err != nil {
		return err
	}
	c.Raise(event)
	return nil
}

func (c *Cart) save(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `UPDATE carts SET (items) = ($1) WHERE id = $2`, int64(c.Items), c.ID)
	return err
}

// Run writes the aggregate and its events, both or neither, and runs the function again after a deadlock. So the function
// loads the aggregate.
func ExampleRun() {
	pool := openShop() // of sql.Open
	defer pool.Close()
	db := writer.SQL(pool, writer.Postgres)
	events, err := writer.New(writer.Postgres)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = writer.Run(context.Background(), db, events, func(ctx context.Context, tx *sql.Tx, u *writer.Unit) error {
		cart := &Cart{ID: "c-1"} // load it
		u.Track(cart)
		u.AfterCommit(func(context.Context) error { fmt.Println("clear the cache"); return nil })
		if err := cart.Put("pen"); err != nil {
			return err
		}
		return cart.save(ctx, tx)
	})
	var unknown *writer.CommitUnknownError
	if errors.As(err, &unknown) {
		fmt.Println("look whether it was committed, before you repeat it")
	}
	fmt.Println(err)
	// Output:
	// BEGIN
	// UPDATE carts SET: 1, c-1
	// INSERT INTO "outbox": Cart, c-1, ItemPut, {"item":"pen"}
	// COMMIT
	// clear the cache
	// <nil>
}

// In a transaction that something else began, such as a framework, call Flush before the commit and End after it.
func ExampleWriter_Flush() {
	events, _ := writer.New(writer.Postgres)
	db := openShop()
	defer db.Close()
	ctx := context.Background()

	place := func() (err error) {
		u := events.NewUnit()
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() {
			_ = tx.Rollback() // without effect once committed
			u.End(ctx, err)
		}()
		cart := &Cart{ID: "c-1"}
		u.Track(cart)
		if err := cart.Put("pen"); err != nil {
			return err
		}
		if err := events.Flush(ctx, tx, u); err != nil {
			return err
		}
		return writer.CommitError(ctx, tx.Commit())
	}
	fmt.Println(place())
	// Output:
	// BEGIN
	// INSERT INTO "outbox": Cart, c-1, ItemPut, {"item":"pen"}
	// COMMIT
	// <nil>
}

// What was raised in a savepoint is forgotten if the savepoint was rolled back.
func ExampleUnit_Savepoint() {
	events, _ := writer.New(writer.Postgres)
	u := events.NewUnit() // in Run it is given
	cart := &Cart{ID: "c-1"}
	u.Track(cart)
	_ = cart.Put("pen")
	err := u.Savepoint(func() error { // with GORM: return tx.Transaction(...)
		_ = cart.Put("gift card")
		return errors.New("sold out") // after ROLLBACK TO SAVEPOINT
	})
	fmt.Println(err, len(cart.Events()))
	// Output: sold out 1
}

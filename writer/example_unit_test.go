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
func ExampleWriter_Run() {
	events, _ := writer.New(writer.Postgres)
	db := openShop()
	defer db.Close()

	err := events.Run(context.Background(), db, nil, func(ctx context.Context, tx *sql.Tx, u *writer.Unit) error {
		cart := &Cart{ID: "c-1"} // load it
		u.Track(cart)
		u.AfterCommit(func(context.Context) error { fmt.Println("clear the cache"); return nil })
		if err := cart.Put("pen"); err != nil {
			return err
		}
		return cart.save(ctx, tx)
	}, writer.WithAttempts(5))
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
		u := writer.NewUnit()
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

// With a savepoint, Restore forgets what was rolled back.
func ExampleUnit_Mark() {
	u := writer.NewUnit(writer.WithHookErrors(func(_ context.Context, err error) { fmt.Println(err) }))
	cart := &Cart{ID: "c-1"}
	u.Track(cart)
	_ = cart.Put("pen")
	gift := u.Mark() // SAVEPOINT gift
	_ = cart.Put("gift card")
	u.Restore(gift) // ROLLBACK TO SAVEPOINT gift
	fmt.Println(len(cart.Events()), "event")
	u.AfterRollback(func(context.Context) error { fmt.Println("rolled back"); return nil })
	u.End(context.Background(), errors.New("sold out"))
	// Output:
	// 1 event
	// rolled back
}

// An adapter for a library with transactions of its own says how one begins, commits and rolls back.
func ExampleRunAttempts() {
	events, _ := writer.New(writer.Postgres)
	err := writer.RunAttempts(context.Background(), func(context.Context) (writer.Attempt, error) {
		tx := &recorder{}
		return writer.Attempt{
			Do: func(ctx context.Context, u *writer.Unit) error {
				cart := &Cart{ID: "c-1"}
				u.Track(cart)
				if err := cart.Put("pen"); err != nil {
					return err
				}
				return events.Flush(ctx, tx, u)
			},
			Commit:   func(context.Context) error { fmt.Println("COMMIT"); return nil },
			Rollback: func(context.Context) error { fmt.Println("ROLLBACK"); return nil },
		}, nil
	})
	fmt.Println(err)
	// Output:
	// COMMIT
	// <nil>
}

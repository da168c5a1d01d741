package pgxinbox_test

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/pgxinbox"
)

// The handler gets pgx's transaction.
func ExamplePool() {
	handle := func(ctx context.Context, pool *pgxpool.Pool, m *inbox.Message) error {
		db := pgxinbox.Pool(pool)
		db.TxOptions.IsoLevel = pgx.RepeatableRead
		in, err := inbox.New(db, "revenue")
		if err != nil {
			return err
		}
		_, err = in.Handle(ctx, m, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE revenue SET orders = orders + 1")
			return err
		})
		return err
	}
	_ = handle
}

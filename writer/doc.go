// Package writer appends events to a transactional outbox table inside the caller's own transaction.
//
// Events are committed or rolled back together with the business data. cdc-relay reads committed events from the WAL
// or binlog and publishes them, at least once and in commit order per key. This package does not connect to a broker,
// starts no goroutines and keeps no state between calls.
//
//	events, err := writer.New(writer.Postgres)                // once, at start; or writer.MySQL, writer.MariaDB
//	db := writer.SQL(pool, writer.Postgres)                   // once; or writer.ORM, pgxwriter.Pool, gormwriter.DB
//	...
//	event, err := writer.JSON("Order", order.ID, "OrderPlaced", order)
//	...
//	err = writer.Run(ctx, db, events, func(ctx context.Context, tx *sql.Tx, u *writer.Unit) error {
//		u.Add(event)
//		_, err := tx.ExecContext(ctx, "INSERT INTO orders ...")
//		return err
//	})
//
// In a transaction of your own it is one more statement, events.Append(ctx, tx, event).
//
// A [Unit] takes what aggregates that embed [Raised] have raised, and functions to be called after the commit. See [Tx] for
// drivers, [Event] for IDs, and [Writer.Append] for order and ownership.
package writer

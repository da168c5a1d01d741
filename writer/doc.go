// Package writer appends events to a transactional outbox table inside the caller's own transaction: they are committed or rolled back with the
// business data. It connects to no broker, starts no goroutines and keeps no state between calls.
//
//	events, err := writer.New(writer.Postgres)     // once, at start; or writer.MySQL, writer.MariaDB
//	db := writer.SQL(pool, writer.Postgres)        // once; or writer.ORM, pgxwriter.Pool, gormwriter.DB
//	...
//	event, err := writer.JSON("Order", order.ID, "OrderPlaced", order)
//	err = writer.Run(ctx, db, events, func(ctx context.Context, tx *sql.Tx, u *writer.Unit) error {
//		u.Add(event) // or u.Track(order), which embeds writer.Raised
//		_, err := tx.ExecContext(ctx, "INSERT INTO orders ...")
//		return err
//	})
//
// In a transaction of your own it is one more statement, events.Append(ctx, tx, event).
package writer

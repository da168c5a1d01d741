// Package inbox lets a consumer do each message's work once, although messages are delivered more than once.
//
// The consumer records a message's source and ID in the table inbox, in the transaction that does the work. The row and the
// work are committed or rolled back together; a repeat finds the row and does nothing:
//
//	in, err := inbox.New(inbox.SQL(db, writer.Postgres), "revenue")
//	...
//	repeat, err := in.Handle(ctx, m, func(ctx context.Context, tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, `UPDATE revenue SET total = total + $1`, total)
//		return err
//	})
//
// The row is inserted before the work. A second consumer of the same message waits at the key until the first transaction
// has ended: after a commit the message is a repeat, after a rollback the second consumer does the work.
//
// 'cdc-relay schema print --inbox' prints the SQL of the tables. The table inbox is not partitioned: a unique key must hold
// the partition column, so an ID would be unique only within a day. [Inbox.Purge] deletes old rows in batches.
//
// Package pgxinbox is the adapter for pgx, kgoinbox a whole consumer on franz-go. For other Kafka clients are lanes, which
// handles keys in parallel, and parking, which keeps what cannot be handled. Package idempotency does the same for HTTP requests.
package inbox

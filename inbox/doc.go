// Package inbox lets a consumer do each message's work once, although messages are delivered more than once.
//
// A message's source and ID are inserted into the table inbox in the transaction that does the work; a repeat finds the row:
//
//	in, err := inbox.New(writer.SQL(db, writer.Postgres), "revenue")
//	...
//	repeat, err := in.Handle(ctx, m, func(ctx context.Context, tx *sql.Tx, _ *writer.Unit) error {
//		_, err := tx.ExecContext(ctx, `UPDATE revenue SET total = total + $1`, total)
//		return err
//	})
//
// What a handler adds to its unit of work is appended in the same transaction, see [WithWriter].
//
// Package kgoinbox is a whole consumer on franz-go. For other clients are lanes, which handles keys in parallel, and parking, which keeps
// what cannot be handled. 'cdc-relay schema print --inbox' prints the SQL of the tables.
package inbox

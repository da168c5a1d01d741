// Package writer appends events to a transactional outbox table inside the caller's own transaction.
//
// The events are committed with the business data or rolled back with it; cdc-relay reads the committed
// ones from the database's log and publishes them, at least once and in commit order per key. Nothing here
// talks to a broker, starts a goroutine or keeps state between calls.
//
//	w, err := writer.New(writer.Postgres)            // once, at start; or writer.MySQL, writer.MariaDB
//	...
//	event, err := writer.JSON("Order", order.ID, "OrderPlaced", order)
//	...
//	err = w.Append(ctx, tx, event)                   // tx is the *sql.Tx that also writes the order
//
// # Drivers
//
// [Writer.Append] takes the transactions of database/sql, and is tested with pgx/v5/stdlib, lib/pq and
// go-sql-driver/mysql. For pgx's own transactions there is the module writer/pgxwriter.
//
// With go-sql-driver/mysql neither parseTime nor loc nor the session's time zone matters: times are stored
// in UTC. The connection's character set must be utf8mb4, which it is unless charset in the DSN says
// otherwise: with another, as with utf8, the server refuses text or, without strict sql_mode, stores it
// damaged. With interpolateParams=true an event costs one round trip, else three, because the driver
// prepares each statement anew.
//
// # Ids, times and retries
//
// An event without an id gets a UUIDv7, greater than every one made before in this process, and one
// without OccurredAt gets the current time. Both are stored in the caller's [Event], so that appending the
// same Event in a retried transaction writes the same event, and consumers can drop repeats by its id. The
// table's created_at follows the time inside a version 7 id; with any other id it is the database's now().
// An event that the table holds already is [ErrDuplicate], unless [WithOnDuplicate] says to skip it.
//
// # Ownership
//
// Append reads the events and fills in what the paragraph above says, nothing else, and keeps none of
// them, nor their payloads and headers, once it has returned. An Event must not be in two calls at once.
// A [Writer] is safe for concurrent use.
//
// # Order
//
// Events of one call are inserted in the order given, and the calls of a transaction in theirs: that is the
// order in which the relay publishes what shares a key.
package writer

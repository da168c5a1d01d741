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
// # Drivers
//
// [Writer.Append] takes transactions of database/sql and is tested with pgx/v5/stdlib, lib/pq and go-sql-driver/mysql. [DB] is
// what [Run] needs of a library; the modules writer/pgxwriter and writer/gormwriter have those of pgx and GORM.
//
// With go-sql-driver/mysql, parseTime, loc and the session's time zone have no effect: times are stored in UTC. The
// connection's character set must be utf8mb4, the default. With another one, such as utf8, the server rejects some text
// or, without strict sql_mode, stores it damaged. With interpolateParams=true an event costs one round trip, otherwise
// three, because the driver prepares each statement again.
//
// # Ids, times and retries
//
// An event without an ID gets a UUIDv7 that is greater than all IDs made before in this process; an event without
// OccurredAt gets the current time. Both are stored in the caller's [Event], so appending the same Event in a retried
// transaction writes the same event, and consumers can drop repeats by its ID. The column created_at is set from the
// time inside a version 7 ID; for other IDs it is the database's now(). An event that is already in the table is
// [ErrDuplicate], unless [WithOnDuplicate] says to skip it.
//
// [Retryable] reports whether a failed transaction is to be run again, [CommitError] whether one may be committed although
// its commit failed.
//
// # Unit of work
//
// [Run] runs a function in a transaction, appends as the last statements what was added to its [Unit] or raised by aggregates that
// embed [Raised], commits, and runs the function again after a deadlock. Events are cleared only after the commit.
// [Unit.AfterCommit] and [Unit.AfterRollback] are for work that is not in the database. [Writer.NewUnit], [Writer.Flush] and
// [Unit.End] do the same in transactions that something else begins.
//
// # Context and interceptors
//
// [WithHeaders] and [WithTenant] take a trace context, an operator or a tenant from the context of each Append.
// [WithInterceptor] changes events, adds others or leaves some out, and [WithObserver] sees what was written.
//
// # Ownership
//
// Append changes only the ID and OccurredAt of events, as described above, also with interceptors, and does not keep
// events, payloads or headers after it returns. Do not pass the same Event to two concurrent calls. A [Writer] is safe
// for concurrent use.
//
// # Order
//
// Events are inserted in the order of the arguments, and in the order of the calls within a transaction. The relay
// publishes events with the same key in that order.
package writer

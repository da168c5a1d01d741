// Package tableread reads the rows of an outbox table by SQL, in order of creation: by one column, then by event ID. The order of commits is
// in no column. In the native table the column is created_at. In another one it is the column that the configuration names (order_by), or
// else a number that the database counts up, or else the row's time: rows of one transaction, or of one second, may share that.
// A [Reader] builds the queries, for all databases alike. What differs is in the database's package, which is its [Driver].
//
// The native table's index is by event ID, and its partitions are by time. So it is read window by window, between the bounds of
// its partitions. In a window the next keys in order come first, up to keysAtOnce of them, and then the rows of one page of keys
// after the other, through the index: as a range of IDs where these follow the time, as UUIDv7 do, otherwise one by one. Both are
// statements whose whole result is in memory before any of it is published: neither a lock on the table nor a snapshot is held while
// Kafka is waited for. A table that is taken out while a statement waits for the lock is in neither place for that statement, which is
// repeated then.
//
// A row's time may be any that the database has: infinite, of a year BC or beyond 9999, or 0000-00-00. Such a row has its place in
// the order of the database.
//
// A batch is like one of the database's source, with the same forms, so that the router makes the same record. Only what the table
// does not have differs: a row counts as a transaction of its own, whose time is the row's.
package tableread

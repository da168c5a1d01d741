// Package binlog is the MySQL and MariaDB source: it tails the binary log by GTID and hands on committed rows
// in commit order. Its twin is package wal; here rows are held until their commit is read. One [Source.Run] is one session; the
// caller retries.
//
// # What comes over the wire
//
// The server sends every event of every database, whole transactions in commit order:
//
//	stream      = { transaction | rotate | heartbeat | other }
//	transaction = GTID ( BEGIN { table map | rows | savepoint | rollback to | other } ( XID | COMMIT | ROLLBACK | XA PREPARE )
//	                   | payload | DDL )
//	payload     = the events from BEGIN to XID, compressed by zstd (MySQL's binlog_transaction_compression)
//
// A table map precedes the rows of its table in every statement and carries the columns' names
// (binlog_row_metadata = FULL). Rows may be followed by ROLLBACK TO: they are held until their transaction ends,
// in memory up to a bound and beyond it in a temporary file.
//
// # Ownership
//
//	            ┌──────────────────── owner (Run) ───────────────────┐
//	socket ───► │ read ─► cut events ─► hold ─► at commit decode ─► Offer│ ───► window
//	            └─────────────────────────────────────────────────────┘
//
// Only the owner reads the connection; nothing is ever written to it after the request for the binlog, because the
// server keeps no position for us. While the window is full the owner waits and reads nothing. After 2 s it hangs up,
// because a server that shuts down waits for a dump thread that is blocked in writing to us. The next attempt goes on behind
// the last transaction handed on, once there is room.
//
// # Errors in the stream
//
// Events that cannot be published as promised (rows under XA, statements, incomplete rows, an INCIDENT) are a
// [cdc.StopError] of [cdc.ClassRuntime] or [cdc.ClassPosition], which ends the run. A change of configuration would not
// help: they are in the binlog already. Connect errors may be of [cdc.ClassConfig], which a relay that has run before
// tries again.
//
// # Rules about positions
//
//  1. A position is a GTID set (MySQL) or the last GTID of each domain (MariaDB). Only whole transactions are in
//     it: a transaction's GTID is added when its commit has been seen and its last row was put into a batch.
//  2. It travels through the position index: what a batch makes safe is what was added before the batch was handed on, so
//     the rows of a transaction that spans batches never carry its GTID but the last ones.
//  3. The checkpoint is the only position there is. Without one a start is refused.
//  4. The server must still have what comes after the position (gtid_purged), and must have all that is in it
//     (gtid_executed): else the binlog has a gap, or belongs to another history. A server that was restored and has
//     passed the position since is detected by the last transaction; see openBehind.
package binlog

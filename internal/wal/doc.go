// Package wal is the PostgreSQL source: it tails a logical replication slot through pgoutput and hands
// on committed rows in commit order. One [Source.Run] is one attempt; the caller retries.
//
// # What comes over the wire
//
// With proto_version 1 the server sends committed transactions only, whole and in commit order, so
// nothing is buffered here. Inside CopyData frames:
//
//	stream      = { transaction | keepalive }
//	transaction = Begin(commit LSN, time, xid) { Relation | Type | Insert | other } Commit(end LSN)
//	keepalive   = WAL end, reply requested?
//
// A Relation precedes the first row of its table on a connection, and again after every change of
// schema. Keepalives come between transactions and also within a long one.
//
// # Ownership
//
//	            ┌────────────── owner (Run) ──────────────┐
//	socket ───► │ read chunk ─► decode ─► assemble ─► Offer│ ───► window
//	       ◄─── │ status ◄─ min(saved, seen by monitor)    │ ◄─── Confirm (an atomic)
//	            └──────────────────────────────────────────┘
//	            ┌── monitor, every second, on its own connection ──┐
//	            │ publication unchanged? slot's state? server up?  │
//	            └──────────────────────────────────────────────────┘
//
// Only the owner reads or writes the replication connection. While the window is full it waits for
// space and keeps sending status, so that back-pressure never becomes a wal_sender_timeout. Between Acquire and Run,
// while Kafka is being opened, a holder is the owner: it sends status and reads nothing.
//
// # Rules about positions
//
//  1. START_REPLICATION is asked for at 0/0: the server then uses the slot's own position. A start LSN
//     ahead of the slot would be obeyed without a word, and skip.
//  2. What was handed on before is dropped here, by the commit LSN of a transaction, never by the LSN
//     of a change: rows of one COPY share theirs.
//  3. A position to resume from is a transaction's end, or a keepalive's WAL end when no transaction is
//     open and everything before it was handed on; it travels through the window as a batch like any
//     other, so it is durable only when all before it is.
//  4. The server gets a confirmation only of what is durable downstream and was received before the last
//     check that found the publication unchanged: a table that leaves the publication for a moment loses
//     rows without an error anywhere.
//  5. When the slot stands before the checkpoint's last outbox commit, that commit must come again with
//     its xid before anything is confirmed; a later one first means another history.
package wal

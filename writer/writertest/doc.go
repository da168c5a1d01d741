// Package writertest checks in tests which events were appended.
//
//	event := writertest.RequireAppended(t, events, writertest.SQL(tx), writertest.Match{Type: "OrderPlaced", AggregateID: "o-1"})
//
// It reads the outbox table through the transaction under test, before it is committed, or through a pool, with [SQL] for
// database/sql and [Pgx] for pgx. A [Recorder] needs no database. It is for tests only.
package writertest

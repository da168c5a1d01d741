// Package writertest verifies in tests which events were appended.
//
//	event := writertest.RequireAppended(t, events, &recorder, writertest.Match{Type: "OrderPlaced", AggregateID: "o-1"})
//
// A [Recorder] needs no database. In a test with one, [SQL] and [Pgx] read the outbox table through the transaction under
// test, before it is committed, or through a pool. The package is for tests only.
package writertest

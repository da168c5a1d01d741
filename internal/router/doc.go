// Package router turns rows of outbox tables into records. It is pure: no context, no I/O, no logging and
// no metrics. A row that cannot be routed is an error, is refused, which makes a dead letter of it, or is dropped, by
// the configured policy. A row that its table's conditions leave out makes nothing.
//
// A [Router] compiles each table's schema once (a schema change is a new [cdc.Table]) and avoids copies:
// topics are interned, constant headers are shared, text columns are sent from the batch's arena, and the
// rest is rendered into the memory of the [cdc.Routed].
//
// A row makes one record. Its value and its headers are those of its table's format (package record), and the rest is decided here:
//
//	topic      the topic column; where that is NULL or empty, the topic of the first route that matches
//	key        partition_key; where that is NULL or empty, aggregate_id; where that is too, no key (null)
package router

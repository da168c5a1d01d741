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
//	key        the key of that route; where it has none, or the topic is the column's, partition_key, or else aggregate_id. NULL and empty
//	           are no key (null)
//	partition  that of the route, or 0 for the key's
package router

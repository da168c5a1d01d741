// Package router turns rows of outbox tables into records. It is pure: no context, no I/O, no logging and
// no metrics; what goes wrong with a row is an error or a dropped row, by the configured policy.
//
// A [Router] compiles each table's schema once (a schema change is a new [cdc.Table]) and then copies
// nothing that it need not: topics are interned, constant headers are shared, text columns go out as they
// stand in the batch's arena, and the rest is rendered into the [cdc.Routed]'s own memory. The format of a
// record is described beside [FormatCloudEventsBinary].
package router

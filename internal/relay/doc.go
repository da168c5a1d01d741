// Package relay is the pipeline: start reading here.
//
//	application transaction ── writer.Append ──► outbox table
//	                                                 │ WAL or binlog
//	                                              Source      streams, decodes, batches
//	                                                 │ cdc.Batch
//	                                              window      limited by events and bytes
//	                                                 │
//	                                              Router      row ► topic, key, headers, value
//	                                                 │ cdc.Routed
//	                                               Sink ──► Kafka
//	                                                 │ cdc.Durable
//	                                              window      contiguous durable prefix
//	                                                 │ position
//	                                            Checkpointer, then Source.Confirm
//
// The files, in the order of this flow: stages.go has the interfaces, relay.go makes an attempt for each start, attempt.go runs its
// goroutines, start.go becomes the leader, tail.go reads the source into window.go, route.go passes batches through the router to the
// sink and takes the sink's answers, drain.go ends the attempt. How positions are kept is a keeper (keeper.go) of one of two kinds,
// at_least_once.go and exactly_once.go; save.go is what both use.
//
// # Order of writes
//
// Kafka acknowledges a batch, then its position is saved, then it is confirmed to the source. So a lost or outdated
// checkpoint causes only duplicates, and on PostgreSQL the slot alone is enough.
//
// # Goroutines
//
// The caller of [Relay.Run] acquires the source and opens the sink, starts the goroutines below, waits for the end and
// drains.
//
//   - tail streams from the source into the window. After an error it pauses, acquires the source again and goes on.
//   - route passes batches from the window, in order, through the router to the sink.
//   - acknowledge takes the sink's answers, which extend the durable prefix.
//   - keep saves the position of the durable prefix and confirms it; with exactly-once delivery a second goroutine commits it in Kafka and
//     confirms it, and this one copies it to the store.
//   - watch reports a pipeline that has batches in flight and makes no progress.
//   - resolveLetters publishes dead letters again, or drops them, where somebody asks for it.
//   - maintain keeps the partitions of the outbox tables, deletes old rows and marks published ones, where the configuration says so.
//
// # Stopping
//
// When the caller's context ends, the window takes the rest of an open transaction and then refuses further batches.
// Those in flight are acknowledged, saved and confirmed, for up to ShutdownTimeout. When a stage returns a
// [cdc.StopError], the same is done for the events before the failed one, and Run returns the error; nothing is skipped.
package relay

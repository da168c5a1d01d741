// Package relay is the pipeline: start reading here.
//
//	application transaction ── writer.Append ──► outbox table
//	                                                 │ WAL
//	                                              Source      tails, decodes, batches
//	                                                 │ cdc.Batch
//	                                              window      bounded by events and bytes
//	                                                 │
//	                                              Router      row ► topic, key, headers, value (pure)
//	                                                 │ cdc.Routed
//	                                               Sink ──► Kafka
//	                                                 │ Durable
//	                                              window      contiguous durable prefix
//	                                                 │ position
//	                                            Checkpointer, then Source.Confirm
//
// # Order of writes
//
// A batch is durable in the sink, then its position is saved, then the source is told. So the checkpoint
// may be lost or rolled back and only duplicates follow, and for PostgreSQL the slot alone is enough.
//
// # Goroutines
//
// The caller of [Relay.Run] acquires the source and opens the sink, starts the goroutines below, waits for the end and
// drains. A test compares the list with [Relay.Run].
//
//   - tail streams from the source into the window, one attempt after another, and acquires the source again
//     between them. It pauses before each attempt; save, the start and the sink have retries of their own.
//   - route takes batches from the window, in order, through the router into the sink.
//   - settle takes the sink's answers and moves the durable prefix.
//   - save stores the position and confirms it; a slow store coalesces its own saves.
//   - watch reports a pipeline that holds batches and does not move.
//
// # Stopping
//
// When the caller's context ends, the window admits nothing more; what is in flight is settled, saved and
// confirmed, for as long as ShutdownTimeout allows. When a stage says stop ([cdc.StopError]), the same
// happens to what was before it, and Run returns the error; nothing is skipped.
package relay

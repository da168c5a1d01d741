// Package dlq resolves dead letters while the relay leads: it publishes them again, or drops them.
//
// Commands only ask, by a record in the index (package deadletter); the leader does the work in its own pipeline. Otherwise two
// producers would race, and a key with steady load could never be drained. Letters that only waited behind another one are
// published as soon as that one is resolved, without anybody asking.
//
// # Publishing again
//
//	index ── letters that may go, of each key the first ones ──► scan of the topic of letters
//	                                                                 │ chunks, of any keys
//	                                                             Router, with the present configuration
//	                                                                 │
//	      attempts noted in the index ──► published ──► resolved in the index ──► tombstones
//
// The letter's record has the row that it was made of, so it is routed as if the row came now. Whatever a crash leaves of these
// steps the next start goes on with; see package publisher.
package dlq

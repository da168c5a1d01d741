// Package publisher publishes messages to Kafka: in order for each key, idempotent, with acks=all, for as
// long as it takes.
//
// # Goroutines
//
//	             Send ──► in ──┐                       ┌── requests ──► sender ── one per broker: dials,
//	                           ▼                       │                  │       encodes, writes
//	relay ◄── Durable ◄── out ◄── loop ────────────────┤                  ▼
//	                           ▲   owns all state,     │            sarama.Broker ── its goroutine reads
//	                           │   no locks            │                  │          the responses
//	                           │                       └── jobs ──► control ── one: metadata, limits,
//	                           │                                      │        producer id, new topics
//	                           └────────── mailbox ◄──────────────────┴──────────┘
//
// The loop takes a Routed at a time, not a message, so nothing is paid for a hop per event. Whatever blocks
// is outside of it: a broker that does not read holds up its own sender and no other, and posting to the
// mailbox never blocks sarama. Every request that a sender is given comes back once, answered or not.
// [Publisher.Kill] ends a context that closes the sockets under all of them, and waits.
//
// # A partition
//
// A key belongs to the partition that Java producers choose (murmur2). A partition has at most one batch in
// flight, so nothing can overtake, and all that waits becomes its next batch: batches grow with the load and
// are sent at once without it. A request combines all partitions of a broker that are ready.
//
//	        messages                  request
//	idle ───────────────► ready ─────────────────► flying
//	 ▲  ▲                   ▲                        │
//	 │  └───────────────────┼───── accepted ─────────┤ (its sequence numbers are used up)
//	 │                      │                        │
//	 │       pause over,    │   connection lost:     │
//	 │       other leader   ├─── the same batch ─────┤
//	 │                      │   as soon as there     │
//	 └── waiting ◄──────────┼─── is another          │
//	        ▲               │                        │
//	        └───────────────┼─── may pass by itself ─┤ (the same batch again, after a pause that grows)
//	                        │                        │
//	                        └─── a record refused ───┤ (halves find it; then it is dropped, or ...)
//	                                                 ▼
//	                                               halted: nothing of the partition leaves any more
//
// A connection is lost when it fails, when a request has no answer in time, or when another broker leads a
// partition whose request has had no answer for a second. A batch whose outcome is not known is sent again as it is, and the brokers recognise its sequence number.
// A refused one was not appended, so its numbers go to smaller batches of the same records. Where neither is
// sure (an earlier attempt had no answer, or the brokers have forgotten the numbers), everything in flight
// is settled first, then there is a new producer id and the numbers begin at 0: records may be in the log
// twice then, but none is lost and none is overtaken.
//
// # Stopping
//
// A message that must not be dropped and cannot be published stops the run at its Routed: of that and of
// later ones nothing more is begun, earlier ones are still settled so that the next run begins as late as
// possible, and then [Publisher.Durable] carries the error.
//
// # Why not sarama's AsyncProducer, or its Client
//
// With message 3 of 6 refused, the AsyncProducer has written 4 to 6 before its caller hears of it, and when
// all brokers are away it gives up by the metadata's retry limit, however many retries it may make. It also
// pays several channel hops for each message. sarama.Client sleeps between attempts where nothing can wake
// it, shares one connection between metadata and produce requests (sarama locks a connection while a
// question is out), and keeps one password for its lifetime. So this package uses the layer below: the
// protocol, the handshakes and SASL are sarama's, in sarama.Broker.
package publisher

// Package publisher publishes messages to Kafka: in order for each key, with an idempotent producer and acks=all, and
// retries without a limit.
//
// # Goroutines
//
//	             Send ──► in ──┐                       ┌── requests ──► brokerConn ── one per broker: dials,
//	                           ▼                       │                  │          encodes, writes
//	relay ◄── Durable ◄── out ◄── loop ────────────────┤                  ▼
//	                           ▲   owns all state,     │            sarama.Broker ── its goroutine reads
//	                           │   no locks            │                  │          the responses
//	                           │                       └── jobs ──► runJobs ── one: metadata, limits,
//	                           │                                      │        producer ID, new topics
//	                           └────────── mailbox ◄──────────────────┴──────────┘
//
// The loop receives a Routed at a time, not a message, so there is no channel operation for each event. Everything that
// blocks is outside of it: a broker that does not read blocks its own brokerConn only, and posting to the mailbox never
// blocks sarama. Every request that a brokerConn gets comes back once, with or without a response. [Publisher.Kill]
// ends a context that closes all sockets, and waits.
//
// # The machines
//
// A partition (partition.go) has at most one batch in flight, so no batch can overtake another. All messages that wait become
// its next batch: batches grow with the load, and without load they are sent at once. A request combines the ready partitions
// of a broker. A key belongs to the partition that Java producers choose (murmur2).
//
// A connection is lost when it fails, when a request times out, or when another broker leads a partition whose request
// has had no response for a second. A batch that may have been appended is sent again unchanged, and the brokers
// recognize its sequence number. A rejected batch was not appended, so smaller batches of the same records use its
// sequence numbers. Where neither is certain (an earlier attempt had no response, or the brokers have lost the sequence
// numbers), all requests in flight end first. Then there is a new producer ID or epoch, and sequence numbers begin at 0:
// records may be published twice then, but none is lost and none overtakes another.
//
// A transaction (transaction.go), with exactly-once delivery, has batches and the position behind them. A partition is ready once
// it is in the transaction, and the next transaction begins when the coordinator has committed this one.
//
// Letters (letters.go) hold back the later events of their keys. The states of a letter are those of [deadletter.Index]. Their resolution
// (resolve.go) is a task, which always takes the same steps: they are published, the index says what became of them, their keys are released.
//
// # On the way
//
// A Routed goes from Send (publisher.go) to the loop, which queues its messages (loop.go), by topic (topic.go) and partition; a
// partition makes a batch (partition.go), and a connection encodes and writes it (broker.go, encode.go). The response goes through
// the mailbox to the partition (partition.go), where a table (outcome.go) says what its error code leads to. An acknowledged batch
// resolves its messages, and the answer leaves through the loop.
//
// # Stopping
//
// A message that cannot be published, and becomes no dead letter and must not be dropped, stops the run at its Routed: nothing of it and of
// later ones is sent any more. With transactions a rewind comes first, which leaves the message alone in its transaction. Earlier ones are still resolved, so that the next run starts as late as possible. Then
// [Publisher.Durable] returns the error.
//
// # Why not sarama's AsyncProducer, or its Client
//
// If message 3 of 6 is rejected, the AsyncProducer has written 4 to 6 before its caller gets the error. When all brokers
// are away it gives up after the metadata's retry limit, however many retries it has. It also needs several channel
// operations for each message. sarama.Client sleeps between attempts and cannot be woken, shares one connection between
// metadata and produce requests (sarama locks a connection until the metadata response), and keeps one password for its
// lifetime. So this package uses the layer below: sarama.Broker has the protocol, the handshakes and SASL. Produce
// requests without compression are encoded here (encode.go).
package publisher

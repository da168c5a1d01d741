package publisher

import (
	"cmp"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// Options configure a [Publisher], as package config has validated them.
type Options struct {
	// Kafka says how to connect.
	Kafka kafka.Options
	// Compression is none, gzip, snappy, lz4 or zstd.
	Compression string
	// Create is how missing topics are created; nil: topics must exist.
	Create *kafka.TopicSpec
	// TransactionalID identifies the relays of one database to the brokers: a relay that opens fences earlier ones, so
	// that none of their late batches are appended between its own. [kafka.TransactionalAuto]: the ID given to Open;
	// [kafka.TransactionalNone]: no fence. Default: kafka.TransactionalAuto.
	TransactionalID string
	// PositionTopic makes every batch part of a transaction that also has a record with the position, in this topic; see
	// [Publisher.Commit]. "": no transactions.
	PositionTopic string
	// Whole makes one transaction of all batches up to the first one without rows, if they take no longer than wholeTime.
	Whole bool

	// Letters says where dead letters go; nil: no event becomes one.
	Letters *LetterOptions
	// Of these a publisher uses all but Unroutable. Another one than stop and dead_letter drops.
	cdc.Policies
	// Dropped is called for each event that a policy drops, to count it; nil: it is not counted.
	Dropped func(reason string)

	// Problems takes those at present; nil: nobody asks for them.
	Problems *cdc.Problems

	// RetryInitial and RetryMax bound the pause between attempts, which doubles and is jittered.
	RetryInitial, RetryMax time.Duration
	// MaxMessageBytes is used for topics whose max.message.bytes may not be read.
	// Default of package config: the brokers' (org.apache.kafka.server.config.ServerLogConfigs.MAX_MESSAGE_BYTES_DEFAULT: 1 MiB and LOG_OVERHEAD).
	MaxMessageBytes int

	// Timing and Strict are for tests, those on real Kafka included, which are in another module. With Strict a state machine
	// that makes a move which its table does not have panics.
	Timing Timing
	Strict bool

	// maxBatchBytes bounds the batch of one partition before compression; max.message.bytes of its topic is a bound
	// too.
	maxBatchBytes int
	// maxBuffered bounds the bytes of messages that are in no request, with bufferPerPartition added for each partition
	// that has messages; Send blocks beyond it.
	maxBuffered int
	// inFlight is how many requests a broker may have without a response. A partition has at most one.
	inFlight int
}

// Timing is the clock and the intervals. The zero value has the intervals that ship.
type Timing struct {
	// Now is the clock; time.Now.
	Now func() time.Time
	// Patience is how long the same error must be repeated before a topic counts as missing or denied: a new topic or
	// grant does not reach every broker at once; 5 s.
	Patience time.Duration
	// RenewInterval is how often the fence is renewed, so that the coordinator does not forget the transactional ID;
	// 24 h.
	RenewInterval time.Duration
	// MetadataInterval is how often partition counts and limits are read again; 5 min.
	MetadataInterval time.Duration
	// Closed is how long new events of a key wait while its last letters are published again: a partition that these are for may have
	// no leader; 5 s.
	Closed time.Duration
}

func withDefaults(o Options) Options {
	o.Timing.Patience = cmp.Or(o.Timing.Patience, 5*time.Second)
	o.Timing.RenewInterval = cmp.Or(o.Timing.RenewInterval, 24*time.Hour)
	o.Timing.MetadataInterval = cmp.Or(o.Timing.MetadataInterval, 5*time.Minute)
	o.Timing.Closed = cmp.Or(o.Timing.Closed, 5*time.Second)
	o.maxBatchBytes = cmp.Or(o.maxBatchBytes, 240<<10) // four fit into a request
	o.maxBuffered = cmp.Or(o.maxBuffered, 1<<20)
	o.inFlight = cmp.Or(o.inFlight, 2)
	o.Problems = cmp.Or(o.Problems, new(cdc.Problems))
	if o.Dropped == nil {
		o.Dropped = func(string) {}
	}
	if o.Timing.Now == nil {
		o.Timing.Now = time.Now
	}
	return o
}

// ownTopic reports whether a topic holds no events, but what the relay itself needs.
func (o *Options) ownTopic(name string) bool {
	return name == o.PositionTopic || o.Letters != nil && (name == o.Letters.Topic || name == o.Letters.Index)
}

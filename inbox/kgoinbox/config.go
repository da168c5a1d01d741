package kgoinbox

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/parking"
)

// Config are the settings of a [Consumer]. Zero values are the defaults.
type Config struct {
	// Client are options of the Kafka client: at least kgo.ConsumerGroup and kgo.ConsumeTopics. The consumer sets those for
	// commits, isolation (read_committed) and changes of the group itself.
	Client []kgo.Opt

	// IDFrom are headers that may hold a message's ID; the first one that a record has is taken, else ce_id.
	IDFrom []string

	// Workers is how many messages are handled at once, by default 8. Each takes a connection of the database's pool.
	Workers int

	// Batch, if above 1, is how many messages a worker handles in one transaction at most: those that wait at the moment, which costs
	// less than a transaction for each. If one fails, all are rolled back and handled one at a time: what the handlers of the others did
	// outside of the transaction is done twice, and on MySQL and MariaDB all that they did after a handler has hidden a deadlock. The rows
	// that handlers lock stay locked for the whole batch. Keep what a batch takes far below Drain.
	Batch int

	// Count bounds the messages of a partition from the first unfinished one on, by default 10,000. So many may be repeated after a
	// crash, and so many of other keys are handled while one message is tried again. When 1,000 more wait for room, the partition is paused.
	Count int

	// Bytes bounds the messages of all partitions that were polled and are not finished, by default 64 MiB. A partition that takes more
	// than half of its share is paused, and nothing is polled while the bound is reached, so it is passed by no more than one poll
	// returns. The Kafka client keeps one fetch of each broker besides, of an eighth of Bytes unless Client has kgo.FetchMaxBytes.
	// What is compressed counts there as compressed.
	Bytes int

	// Timeout is how long a handler may take, by default 1 minute; below 0 it may take any time. Then its context ends, and the attempt
	// has failed unless the handler returns nil all the same. A handler that does not use its context is not interrupted. MySQL and MariaDB may go on with its statement for seconds, and the next attempt waits for that.
	Timeout time.Duration

	// Attempts is how often a message is handled before it is parked, by default 25. Between two attempts is a random pause of half of
	// Backoff (100 ms) to Backoff, doubled each time up to MaxBackoff (30 s): with the defaults a message is parked 4 to 8 minutes after
	// its first attempt. [inbox.RetryAfter] sets another pause, [inbox.Permanent] parks at once. A retry of a parked message has 5 attempts.
	//
	// A failure of the database does not count as an attempt: then all messages wait, and one at a time is tried, after pauses of the
	// same kind.
	Attempts            int
	Backoff, MaxBackoff time.Duration

	// Stop ends Run with the error of a message that cannot be handled, in place of parking it.
	Stop bool

	// Parking are the options of the parking.
	Parking []parking.Option

	// Drain is how long handlers may take to end when Run's context ends or a partition goes to another consumer, by default
	// 20 s; then their contexts end. Keep it below the group's rebalance timeout (60 s in franz-go).
	Drain time.Duration

	// Keep, if it is not 0, is how long rows of handled messages stay in the inbox: Run deletes older ones every 10 minutes, see
	// [inbox.Inbox.Purge]. The owner of partition 0 of a topic does so, and other consumers of the group do not.
	Keep time.Duration

	// CommitInterval is the time between two commits of offsets, by default 1 s, and RetryInterval the time between two looks
	// for parked messages to handle again, by default 5 s.
	CommitInterval, RetryInterval time.Duration

	// Observer, if not nil, sees what becomes of messages.
	Observer Observer

	// Logger logs failures; nil is slog.Default.
	Logger *slog.Logger
}

// Observer counts messages, for metrics. It is called from several goroutines and must not block.
type Observer interface {
	// Handled is called after each attempt; err is that of Failed and Parked.
	Handled(m *inbox.Message, o Outcome, took time.Duration, err error)

	// InFlight is called when the number of messages of a partition that were polled and are unfinished has changed; it is 0 when the
	// partition was given up.
	InFlight(topic string, partition int32, n int)
}

// Outcome is what became of an attempt.
type Outcome string

// The outcomes. Failed messages are tried again.
const (
	Handled Outcome = "handled"
	Repeat  Outcome = "repeat"
	Failed  Outcome = "failed"
	Parked  Outcome = "parked"
)

// withDefaults returns the settings with defaults in place of zeros.
func (c Config) withDefaults() Config {
	for _, n := range []struct {
		to  *int
		def int
	}{{&c.Workers, 8}, {&c.Attempts, 25}, {&c.Count, 10_000}, {&c.Bytes, 64 << 20}} {
		if *n.to <= 0 {
			*n.to = n.def
		}
	}
	for _, d := range []struct {
		to  *time.Duration
		def time.Duration
	}{
		{&c.Backoff, 100 * time.Millisecond},
		{&c.MaxBackoff, 30 * time.Second},
		{&c.Drain, 20 * time.Second},
		{&c.CommitInterval, time.Second},
		{&c.RetryInterval, 5 * time.Second},
	} {
		if *d.to <= 0 {
			*d.to = d.def
		}
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// pause returns the time to the next attempt after n failed: half of it is random.
func (c *Config) pause(n int) time.Duration {
	d := c.Backoff
	for ; n > 1 && d < c.MaxBackoff; n-- {
		d *= 2
	}
	d = min(d, c.MaxBackoff)
	return d/2 + rand.N(d/2+1) + 1 //nolint:gosec // jitter
}

// message returns the record as a message. Its bytes are copies: those of a record are part of a whole batch, which an unfinished
// message would keep.
func (c *Config) message(r *kgo.Record) *inbox.Message {
	m := &inbox.Message{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, inbox.Header{Key: strings.Clone(h.Key), Value: bytes.Clone(h.Value)})
	}
	_ = m.ReadCloudEvents() // a second ID or source leaves it empty: the message is refused, unless the settings give one
	for _, key := range c.IDFrom {
		if id, ok := m.Header(key); ok {
			m.ID = string(id)
			break
		}
	}
	return m
}

package publisher

import (
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// SASL mechanisms.
const (
	Plain       = sarama.SASLTypePlaintext
	ScramSHA256 = sarama.SASLTypeSCRAMSHA256
	ScramSHA512 = sarama.SASLTypeSCRAMSHA512
)

// SASL holds the credentials of a listener that asks for them.
type SASL struct {
	// Mechanism is [Plain], [ScramSHA256] or [ScramSHA512].
	Mechanism string
	Username  string
	// Password is called for every connection, so that a rotated secret is picked up.
	Password func() (string, error)
}

// TopicSpec says how missing topics are created. -1 is the brokers' default.
type TopicSpec struct {
	Partitions        int32
	ReplicationFactor int16
	// Configs are topic settings: "cleanup.policy", "retention.ms".
	Configs map[string]string
}

// Options configure a [Publisher]. Zero values mean the defaults given here; only Brokers is required.
type Options struct {
	// Brokers are the host:port addresses to begin with.
	Brokers []string
	// ClientID shows up in the brokers' logs and quotas; "cdc-relay".
	ClientID string
	// TLS is nil for plaintext listeners. An empty ServerName is filled in for each broker.
	TLS *tls.Config
	// SASL is nil for listeners that ask for no credentials.
	SASL *SASL
	// Compression is none, gzip, snappy, lz4 or zstd; none.
	Compression string
	// Create makes missing topics; nil: topics must exist.
	Create *TopicSpec

	// UnknownTopic, TooLarge and Rejected are the policies for a topic that is not there, a record over
	// the topic's limit, and a record that a broker refuses; Stop.
	UnknownTopic, TooLarge, Rejected cdc.Policy
	// Patience is how long a missing topic or a refused right may last before it is believed: a topic
	// just made and a grant just given are not known to every broker at once; 5 s.
	Patience time.Duration

	// RequestTimeout is how long a broker may take to answer before its connection is given up; 15 s.
	RequestTimeout time.Duration
	// DialTimeout bounds connecting, TLS and authentication included; 5 s.
	DialTimeout time.Duration
	// RetryInitial and RetryMax bound the pause between attempts, which doubles and is jittered; 200 ms, 10 s.
	RetryInitial, RetryMax time.Duration
	// TransactionalID is what a broker knows the relays of one log by: one that opens fences those before it,
	// so that nothing late of theirs gets between what it sends. TransactionalAuto: the name given to Open;
	// TransactionalNone: no fence. No transaction is begun. TransactionalAuto.
	TransactionalID string
	// RenewInterval is how often the fence is renewed; 24 h.
	RenewInterval time.Duration
	// MetadataInterval is how often partition counts and limits are read again; 5 min.
	MetadataInterval time.Duration

	// MaxBatchBytes bounds the batch of one partition before compression; 256 KiB, and never more than
	// the topic's max.message.bytes.
	MaxBatchBytes int
	// MaxRequestBytes bounds the batches that one request combines; 1 MiB.
	MaxRequestBytes int
	// MaxBuffered bounds the bytes of messages that wait for their request; Send blocks beyond it; 1 MiB, and 4 KiB
	// more for each partition that has messages.
	MaxBuffered int
	// InFlight is how many requests a broker may have unanswered; 2. A partition has at most one.
	InFlight int
	// MaxMessageBytes stands for a topic's max.message.bytes where it may not be read; 1048588, which is
	// Kafka's default.
	MaxMessageBytes int

	// Now is the clock; time.Now.
	Now func() time.Time
}

// kafkaMaxMessageBytes is the brokers' default of message.max.bytes
// (org.apache.kafka.server.config.ServerLogConfigs.MAX_MESSAGE_BYTES_DEFAULT: 1 MiB and LOG_OVERHEAD).
const kafkaMaxMessageBytes = 1<<20 + 12

func withDefaults(o Options) Options {
	setDefault(&o.ClientID, "cdc-relay")
	setDefault(&o.Compression, "none")
	setDefault(&o.UnknownTopic, cdc.PolicyStop)
	setDefault(&o.TooLarge, cdc.PolicyStop)
	setDefault(&o.Rejected, cdc.PolicyStop)
	setDefault(&o.Patience, 5*time.Second)
	setDefault(&o.RequestTimeout, 15*time.Second)
	setDefault(&o.DialTimeout, 5*time.Second)
	setDefault(&o.RetryInitial, 200*time.Millisecond)
	setDefault(&o.RetryMax, 10*time.Second)
	setDefault(&o.TransactionalID, TransactionalAuto)
	setDefault(&o.RenewInterval, renewInterval)
	setDefault(&o.MetadataInterval, 5*time.Minute)
	setDefault(&o.MaxBatchBytes, 256<<10)
	setDefault(&o.MaxRequestBytes, 1<<20)
	setDefault(&o.MaxBuffered, 1<<20)
	setDefault(&o.InFlight, 2)
	setDefault(&o.MaxMessageBytes, kafkaMaxMessageBytes)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// transactional returns the transactional id of a publisher that was opened under a name, "" for none.
func (o *Options) transactional(name string) string {
	switch o.TransactionalID {
	case TransactionalAuto:
		return name
	case TransactionalNone:
		return ""
	default:
		return o.TransactionalID
	}
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func (o *Options) validate() error {
	if len(o.Brokers) == 0 {
		return fixable("set kafka.brokers to at least one host:port", "no Kafka brokers given")
	}
	for _, addr := range o.Brokers {
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
			return fixable("write it as for example broker-1:9092", "kafka broker %q is not host:port", addr)
		}
	}
	if _, err := codec(o.Compression); err != nil {
		return err
	}
	for _, p := range []cdc.Policy{o.UnknownTopic, o.TooLarge, o.Rejected} {
		if p != cdc.PolicyStop && p != cdc.PolicyDrop {
			return fixable("use stop or drop", "policy %q is not known", p)
		}
	}
	if c := o.Create; c != nil && (c.Partitions == 0 || c.Partitions < -1 || c.ReplicationFactor == 0 || c.ReplicationFactor < -1) {
		return fixable("set both to at least 1, or to -1 for the brokers' defaults", "topics.create lacks partitions or replication_factor")
	}
	for _, n := range []int{o.MaxBatchBytes, o.MaxRequestBytes, o.MaxBuffered, o.InFlight, o.MaxMessageBytes} {
		if n < 0 {
			return fmt.Errorf("a size or count of the publisher is negative: %d", n)
		}
	}
	return o.SASL.validate()
}

func (s *SASL) validate() error {
	switch {
	case s == nil:
		return nil
	case s.Mechanism != Plain && s.Mechanism != ScramSHA256 && s.Mechanism != ScramSHA512:
		return fixable("use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", "SASL mechanism %q is not known", s.Mechanism)
	case s.Username == "":
		return fixable("set kafka.sasl.username", "SASL has no username")
	case s.Password == nil:
		return fixable("set kafka.sasl.password", "SASL has no password")
	}
	return nil
}

func fixable(fix, cause string, args ...any) error {
	return &cdc.FixableError{Cause: fmt.Errorf(cause, args...), Fix: fix}
}

func codec(name string) (sarama.CompressionCodec, error) {
	var c sarama.CompressionCodec
	if err := c.UnmarshalText([]byte(name)); err != nil {
		return 0, fixable("use none, gzip, snappy, lz4 or zstd", "compression %q is not known", name)
	}
	return c, nil
}

package publisher

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// soon is the time limit of each wait, long enough for a busy machine.
var soon = cdctest.Patience(2 * time.Minute)

func TestEveryCodec(t *testing.T) {
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			topic := "codec-" + codec
			newTopic(t, shared, topic, 6, nil)
			s := open(t, publisher.Options{Kafka: kafka.Options{Brokers: shared.Bootstrap()}, Compression: codec})
			const rounds, size = 40, 100
			for i := range rounds {
				s.send(t, numbered(topic, i*size, size, 31)...)
			}
			durable(t, s, rounds)
			began := time.Now().Add(-time.Minute)
			java := kgo.StickyKeyPartitioner(nil).ForTopic(topic) // murmur2, as in Java
			o := newOrder(31)
			readAll(t, shared.Bootstrap(), topic, func(r *kgo.Record) bool {
				o.check(t, r)
				if want := java.Partition(r, 6); int(r.Partition) != want {
					t.Fatalf("key %s is in partition %d, Java producers choose %d", r.Key, r.Partition, want)
				}
				if len(r.Headers) != 2 || r.Headers[0].Key != "ce_id" || string(r.Headers[0].Value) != "id-"+string(r.Value) || r.Headers[1].Value != nil {
					cdctest.Violation(t, cdctest.Content, "headers %v of value %s", r.Headers, r.Value)
					t.FailNow()
				}
				if r.Timestamp.Before(began) {
					t.Fatalf("record time %v", r.Timestamp)
				}
				return len(o.seen) == rounds*size
			})
			o.once(t)
		})
	}
}

func TestEveryListener(t *testing.T) {
	newTopic(t, shared, "listeners", 2, nil)
	login := func(mechanism, password string) *kafka.SASL {
		return &kafka.SASL{Mechanism: mechanism, Username: testenv.KafkaUser, Password: func(context.Context) (string, error) { return password, nil }}
	}
	right := testenv.KafkaPassword
	for _, c := range []struct {
		name     string
		listener testenv.Listener
		addr     string // in place of the listener's
		tls      func() (*tls.Config, error)
		sasl     *kafka.SASL
		says     string // "": it works
		stops    bool
	}{
		{"tls", testenv.ListenerTLS, "", trust(t, shared), nil, "", false},
		{"plain", testenv.ListenerSASL, "", nil, login("PLAIN", right), "", false},
		{"scram 256", testenv.ListenerSASL, "", nil, login("SCRAM-SHA-256", right), "", false},
		{"scram 512", testenv.ListenerSASL, "", nil, login("SCRAM-SHA-512", right), "", false},
		{"scram and tls", testenv.ListenerSASLTLS, "", trust(t, shared), login("SCRAM-SHA-512", right), "", false},
		{"wrong password, plain", testenv.ListenerSASL, "", nil, login("PLAIN", "guess"), "kafka.sasl.username", true},
		{"wrong password, scram", testenv.ListenerSASL, "", nil, login("SCRAM-SHA-256", "guess"), "kafka.sasl.username", true},
		{"no password", testenv.ListenerSASL, "", nil, nil, "kafka.sasl", false},
		{"password not wanted", testenv.ListenerPlain, "", nil, login("PLAIN", right), "kafka.sasl", true},
		{"tls wanted", testenv.ListenerTLS, "", nil, nil, "kafka.tls", false},
		{"tls not wanted", testenv.ListenerPlain, "", trust(t, shared), nil, "plaintext", false},
		{"unknown authority", testenv.ListenerTLS, "", anyTLS, nil, "kafka.tls.ca", true},
		{"refused", "", "127.0.0.1:1", nil, nil, "check host and port", false},
		{"no such host", "", "kafka.invalid:9092", nil, nil, "check the name", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			addrs := shared.Addrs(c.listener)
			if c.addr != "" {
				addrs = []string{c.addr}
			}
			opts := publisher.Options{Kafka: kafka.Options{
				Brokers: addrs, TLS: c.tls, SASL: c.sasl, RequestTimeout: 5 * time.Second, DialTimeout: 5 * time.Second,
			}}
			if c.says == "" {
				s := open(t, opts)
				s.send(t, numbered("listeners", 0, 10, 3)...)
				if err := s.await(t, soon, 1); err != nil {
					t.Error(err)
				}
				return
			}
			err := unopened(t, opts).Open(t.Context(), "cdc-relay.test")
			if err == nil || !strings.Contains(cdc.Explain(err), c.says) || !strings.Contains(cdc.Explain(err), addrs[0]) || strings.Contains(cdc.Explain(err), "\n") {
				t.Errorf("the error does not say %q and where in one line: %v", c.says, err)
			}
			var stop *cdc.StopError
			if errors.As(err, &stop) != c.stops || stop != nil && stop.Class != cdc.ClassConfig || c.name == "unknown authority" && stop.Reason != "kafka_tls" {
				t.Errorf("error %v, want a stop: %v", err, c.stops)
			}
		})
	}
}

// The size check before sending equals the broker's: the largest record passes, and one byte more is rejected before it is
// sent. With compression, where only the broker can check, its rejection is reported.
func TestLargestRecord(t *testing.T) {
	const limit = 2000
	newTopic(t, shared, "limit", 1, map[string]string{"max.message.bytes": "2000"})
	record := func(n int) cdc.Message {
		return cdc.Message{
			ID: []byte("big"), Topic: "limit", Key: []byte("k"), Value: []byte(strings.Repeat("v", n)),
			Headers: []cdc.Header{{Key: []byte("ce_id"), Value: []byte("big")}},
		}
	}
	const overhead = 61 + 2 + 3 + 2 + 2 + 1 + 1 + 5 + 1 + 3 // batch, length, attributes and deltas, key, value's length, headers
	s := open(t, publisher.Options{Kafka: kafka.Options{Brokers: shared.Bootstrap()}})
	s.send(t, record(limit-overhead))
	if err := s.await(t, soon, 1); err != nil {
		t.Fatalf("the largest record that fits: %v", err)
	}
	s.send(t, record(limit-overhead+1))
	if err := s.await(t, soon, 2); err == nil || !strings.Contains(cdc.Explain(err), "takes 2001 bytes and the topic allows 2000") {
		t.Errorf("one byte too many: %v", err)
	}
	s = open(t, publisher.Options{Kafka: kafka.Options{Brokers: shared.Bootstrap()}, Compression: "gzip"})
	s.send(t, record(10*limit)) // compressed it is small
	if err := s.await(t, soon, 1); err != nil {
		t.Errorf("a record that is small when compressed: %v", err)
	}
	noise := make([]byte, 2*limit)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	s.send(t, cdc.Message{ID: []byte("noise"), Topic: "limit", Key: []byte("k"), Value: noise})
	if err := s.await(t, soon, 2); err == nil || !strings.Contains(cdc.Explain(err), `"noise"`) || !strings.Contains(cdc.Explain(err), "max.message.bytes") {
		t.Errorf("a record that stays large when compressed: %v", err)
	}
}

func TestCreatesTopic(t *testing.T) {
	to := kafka.Options{Brokers: shared.Bootstrap()}
	s := open(t, publisher.Options{Kafka: to, Create: &kafka.TopicSpec{Partitions: 3, ReplicationFactor: -1, Configs: map[string]string{"cleanup.policy": "compact"}}})
	s.send(t, numbered("created", 0, 30, 7)...)
	durable(t, s, 1)
	if tp := describe(t, to, "", "created").Topics[0]; tp.Err != nil || tp.Partitions != 3 || tp.CleanupPolicy != "compact" || tp.Write != kafka.Granted {
		t.Errorf("topic %+v", tp)
	}
}

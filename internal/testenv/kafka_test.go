package testenv_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

func TestKafkaServesAndKeepsItsData(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t, testenv.KafkaOptions{Settings: map[string]string{"broker.session.timeout.ms": "3000"}}) // it is killed
	ctx := t.Context()
	must(t, k.CreateTopic(ctx, "orders", 1, nil))
	cl := kafkaClient(t, k.Bootstrap(), kgo.ConsumeTopics("orders"))
	must(t, produce(ctx, cl, "one"))
	b := k.Brokers()[0]
	b.Kill()
	must(t, b.Start(ctx))
	must(t, produce(ctx, cl, "two"))
	must(t, b.Stop(ctx))
	must(t, b.Start(ctx))
	must(t, produce(ctx, cl, "three"))
	wantRecords(t, cl, "one", "two", "three")
}

func TestThreeBrokersSurviveTheLossOfEach(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t, testenv.KafkaOptions{Brokers: 3, Secure: true, Proxied: true})
	ctx := t.Context()
	must(t, k.CreateTopic(ctx, "orders", 1, nil))
	cl := kafkaClient(t, k.Bootstrap(), kgo.ConsumeTopics("orders"))
	want := []string{"before"}
	must(t, produce(ctx, cl, "before"))
	for _, b := range k.Brokers() {
		b.Kill()
		must(t, produce(ctx, cl, "without one"))
		want = append(want, "without one")
		must(t, k.Start(ctx))
	}
	wantRecords(t, cl, want...)

	t.Run("TLS", func(t *testing.T) {
		must(t, produce(ctx, kafkaClient(t, k.Addrs(testenv.ListenerTLS), kgo.DialTLSConfig(trust(t, k.CAFile()))), "x"))
	})
	t.Run("SASL", func(t *testing.T) {
		account := scram.Auth{User: testenv.KafkaUser, Pass: testenv.KafkaPassword}
		for _, mechanism := range []sasl.Mechanism{
			plain.Auth{User: testenv.KafkaUser, Pass: testenv.KafkaPassword}.AsMechanism(),
			account.AsSha256Mechanism(), account.AsSha512Mechanism(),
		} {
			must(t, produce(ctx, kafkaClient(t, k.Addrs(testenv.ListenerSASL), kgo.SASL(mechanism)), "x"))
			must(t, produce(ctx, kafkaClient(t, k.Addrs(testenv.ListenerSASLTLS), kgo.SASL(mechanism),
				kgo.DialTLSConfig(trust(t, k.CAFile()))), "x"))
		}
		wrong := plain.Auth{User: testenv.KafkaUser, Pass: "wrong"}.AsMechanism()
		err := kafkaClient(t, k.Addrs(testenv.ListenerSASL), kgo.SASL(wrong), kgo.RequestRetries(0)).Ping(ctx)
		if !errors.Is(err, kerr.SaslAuthenticationFailed) {
			t.Fatalf("with a wrong password: %v", err)
		}
	})
	t.Run("proxy", func(t *testing.T) {
		cl := kafkaClient(t, k.Addrs(testenv.ListenerProxied), impatient())
		must(t, produce(ctx, cl, "x"))
		for _, b := range k.Brokers() {
			must(t, b.Proxy().Swallow(testenv.Responses))
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := cl.Ping(short); err == nil {
			t.Fatal("a response came through")
		}
		for _, b := range k.Brokers() {
			b.Proxy().Heal(ctx)
		}
		must(t, produce(ctx, kafkaClient(t, k.Addrs(testenv.ListenerProxied)), "x"))
	})
}

func TestPausedBrokerAnswersAfterResume(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t, testenv.KafkaOptions{Settings: map[string]string{"auto.create.topics.enable": "true"}})
	must(t, k.CreateTopic(t.Context(), "orders", 1, nil))
	cl := kafkaClient(t, k.Bootstrap(), impatient())
	b := k.Brokers()[0]
	must(t, b.Pause())
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := cl.Ping(short); err == nil {
		t.Fatal("a paused broker answered")
	}
	must(t, b.Resume())
	must(t, produce(t.Context(), kafkaClient(t, k.Bootstrap()), "x"))
}

func kafkaClient(t *testing.T, addrs []string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(options, kgo.SeedBrokers(addrs...), kgo.DefaultProduceTopic("orders"))...)
	must(t, err)
	t.Cleanup(cl.Close)
	return cl
}

// impatient also limits a connection's first request, to which the client gives ten seconds regardless of the context.
func impatient() kgo.Opt { return kgo.RequestTimeoutOverhead(time.Second) }

func produce(ctx context.Context, cl *kgo.Client, value string) error {
	return cl.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr()
}

func wantRecords(t *testing.T, cl *kgo.Client, want ...string) {
	t.Helper()
	var got []string
	for len(got) < len(want) {
		fetches := cl.PollFetches(t.Context())
		must(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("record %d is %q, want %q", i, got[i], want[i])
		}
	}
}

func trust(t *testing.T, caFile string) *tls.Config {
	t.Helper()
	pem, err := os.ReadFile(caFile)
	must(t, err)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		t.Fatalf("no certificate in %s", caFile)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

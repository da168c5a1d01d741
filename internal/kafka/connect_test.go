package kafka_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

func TestMain(m *testing.M) {
	// sarama registers one meter for each topic that is read, in go-metrics' global registry.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

// newCluster starts a fake of some brokers with topic "t" of some partitions.
func newCluster(t *testing.T, brokers, partitions int, more ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	opts := append([]kfake.Opt{kfake.NumBrokers(brokers), kfake.SeedTopics(int32(partitions), "t")}, more...)
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newClient(t *testing.T, opts kafka.Options) *kafka.Client {
	t.Helper()
	opts.ClientID, opts.RequestTimeout = "cdc-relay", 15*time.Second
	c := kafka.NewClient(opts)
	t.Cleanup(c.Close)
	return c
}

// The next connect is told of a token that a broker has refused.
func TestRefusedToken(t *testing.T) {
	c := newCluster(t, 1, 1)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.SASLHandshake}, Err: kerr.SaslAuthenticationFailed, TopLevel: true, Count: -1})
	var told []string
	client := newClient(t, kafka.Options{Brokers: c.ListenAddrs(), SASL: &kafka.SASL{Mechanism: kafka.OAuthBearer, Token: func(_ context.Context, refused string) (string, error) {
		told = append(told, refused)
		return "revoked", nil
	}}})
	_, _ = client.TakeOver(t.Context(), "cdc-relay.test")
	_, _ = client.TakeOver(t.Context(), "cdc-relay.test")
	if !slices.Equal(told, []string{"", "revoked"}) {
		t.Errorf("refused tokens: %q", told)
	}
}

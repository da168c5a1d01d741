package kafka_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
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

// certificate returns a server's certificate for 127.0.0.1 and the pool that trusts it.
func certificate(t *testing.T) (server *tls.Config, trust *x509.CertPool) {
	t.Helper()
	srv := httptest.NewTLSServer(nil)
	t.Cleanup(srv.Close)
	trust = x509.NewCertPool()
	trust.AddCert(srv.Certificate())
	return &tls.Config{Certificates: srv.TLS.Certificates}, trust
}

func trusting(pool *x509.CertPool) func() (*tls.Config, error) {
	return func() (*tls.Config, error) { return &tls.Config{RootCAs: pool}, nil }
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

// The error of a failed connection says what to fix.
func TestConnectErrors(t *testing.T) {
	server, trust := certificate(t)
	plain := newCluster(t, 1, 1)
	secure := newCluster(t, 1, 1, kfake.TLS(server))
	asking := newCluster(t, 1, 1, kfake.EnableSASL(), kfake.Superuser("PLAIN", "relay", "secret"))
	for _, c := range []struct {
		name   string
		addr   string
		opts   kafka.Options
		says   string
		reason string // of a stop; "": worth another attempt
	}{
		{"refused", "127.0.0.1:1", kafka.Options{}, "check host and port", ""},
		{"no such host", "kafka.invalid:9092", kafka.Options{}, "check the name", ""},
		{"no credentials", asking.ListenAddrs()[0], kafka.Options{}, "whether that wants", ""},
		{"TLS wanted", secure.ListenAddrs()[0], kafka.Options{}, "kafka.tls", ""},
		{"TLS not wanted", plain.ListenAddrs()[0], kafka.Options{TLS: trusting(trust), DialTimeout: time.Second}, "plaintext", ""},
		{"not trusted", secure.ListenAddrs()[0], kafka.Options{TLS: trusting(nil)}, "kafka.tls.ca", "kafka_tls"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.opts.Brokers = []string{c.addr}
			_, err := newClient(t, c.opts).TakeOver(t.Context(), "cdc-relay.test")
			if err == nil {
				t.Fatal("it connected")
			}
			if !strings.Contains(cdc.Explain(err), c.says) || !strings.Contains(cdc.Explain(err), c.addr) || strings.Contains(cdc.Explain(err), "\n") {
				t.Errorf("the error does not say %q and where in one line: %v", c.says, err)
			}
			var stop *cdc.StopError
			if errors.As(err, &stop) != (c.reason != "") || stop != nil && (stop.Reason != c.reason || stop.Class != cdc.ClassConfig) {
				t.Errorf("error %v, want a stop for reason %q", err, c.reason)
			}
		})
	}
}

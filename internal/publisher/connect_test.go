package publisher_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
)

func login(mechanism, password string) *kafka.SASL {
	return &kafka.SASL{Mechanism: mechanism, Username: "relay", Password: func(context.Context) (string, error) { return password, nil }}
}

func TestLogin(t *testing.T) {
	for _, mechanism := range []string{kafka.Plain, kafka.ScramSHA256, kafka.ScramSHA512} {
		t.Run(mechanism, func(t *testing.T) {
			c := newCluster(t, 2, 4, kfake.EnableSASL(), kfake.Superuser(mechanism, "relay", "secret"))
			opts := options(c)
			opts.Kafka.SASL = login(mechanism, "secret")
			s := open(t, opts)
			s.send(t, numbered(0, 20, 5)...)
			s.answered(t, 1)
		})
	}
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

func TestTLS(t *testing.T) {
	server, trust := certificate(t)
	c := newCluster(t, 2, 4, kfake.TLS(server))
	opts := options(c)
	opts.Kafka.TLS = func() (*tls.Config, error) { return &tls.Config{RootCAs: trust}, nil }
	s := open(t, opts)
	s.send(t, numbered(0, 20, 5)...)
	s.answered(t, 1)
}

func TestOptionsAreChecked(t *testing.T) {
	brokers := kafka.Options{Brokers: []string{"k:1"}}
	for _, c := range []struct {
		opts publisher.Options
		says string
	}{
		{publisher.Options{}, "kafka.brokers"},
		{publisher.Options{Kafka: brokers, Compression: "brotli"}, "zstd"},
		{publisher.Options{Kafka: brokers, TooLarge: "shrug"}, "stop or drop"},
		{publisher.Options{Kafka: brokers, Create: &kafka.TopicSpec{}}, "topics.create"},
		{publisher.Options{Kafka: brokers, MaxMessageBytes: -1}, "negative"},
	} {
		_, err := publisher.New(c.opts, logger(t), prometheus.NewRegistry())
		var stop *cdc.StopError
		if !errors.As(err, &stop) || stop.Class != cdc.ClassConfig || !strings.Contains(cdc.Explain(err), c.says) {
			t.Errorf("options %+v: error %v, want one that says %q", c.opts, err, c.says)
		}
	}
}

func TestMetricsCanBeRegisteredAgain(t *testing.T) {
	reg := prometheus.NewRegistry()
	for range 2 {
		if _, err := publisher.New(publisher.Options{Kafka: kafka.Options{Brokers: []string{"k:1"}}}, logger(t), reg); err != nil {
			t.Fatal(err)
		}
	}
}

package publisher_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
)

func login(mechanism, password string) *publisher.SASL {
	return &publisher.SASL{Mechanism: mechanism, Username: "relay", Password: func() (string, error) { return password, nil }}
}

func TestLogin(t *testing.T) {
	for _, mechanism := range []string{publisher.Plain, publisher.ScramSHA256, publisher.ScramSHA512} {
		t.Run(mechanism, func(t *testing.T) {
			c := newCluster(t, 2, 4, kfake.EnableSASL(), kfake.Superuser(mechanism, "relay", "secret"))
			opts := options(c)
			opts.SASL = login(mechanism, "secret")
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
	opts.TLS = &tls.Config{RootCAs: trust}
	s := open(t, opts)
	s.send(t, numbered(0, 20, 5)...)
	s.answered(t, 1)
}

func TestOpenExplains(t *testing.T) {
	server, trust := certificate(t)
	plain := newCluster(t, 1, 1)
	secure := newCluster(t, 1, 1, kfake.TLS(server))
	asking := newCluster(t, 1, 1, kfake.EnableSASL(), kfake.Superuser("PLAIN", "relay", "secret"))
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	for _, c := range []struct {
		name   string
		addr   string
		opts   publisher.Options
		says   string
		reason string // of a stop; "": worth another attempt
	}{
		{"refused", closed.Addr().String(), publisher.Options{}, "check host and port", ""},
		{"no such host", "kafka.invalid:9092", publisher.Options{}, "check the name", ""},
		{"no credentials", asking.ListenAddrs()[0], publisher.Options{}, "whether the listener wants", ""},
		{"TLS wanted", secure.ListenAddrs()[0], publisher.Options{}, "kafka.tls", ""},
		{"TLS not wanted", plain.ListenAddrs()[0], publisher.Options{TLS: &tls.Config{RootCAs: trust}}, "plaintext", ""},
		{"not trusted", secure.ListenAddrs()[0], publisher.Options{TLS: &tls.Config{}}, "the CA that signed", "kafka_tls"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.opts.Brokers, c.opts.RequestTimeout, c.opts.DialTimeout = []string{c.addr}, time.Second, time.Second
			err := unopened(t, c.opts).Open(t.Context(), "cdc-relay.test")
			if err == nil {
				t.Fatal("it opened")
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

func TestPasswordIsReadAtEveryConnect(t *testing.T) {
	c := newCluster(t, 1, 1, kfake.EnableSASL(), kfake.Superuser("PLAIN", "relay", "secret"))
	opts := options(c)
	reads := 0
	opts.SASL = &publisher.SASL{Mechanism: "PLAIN", Username: "relay", Password: func() (string, error) {
		reads++
		if reads == 1 {
			return "old", nil
		}
		return "secret", nil
	}}
	p := unopened(t, opts)
	if err := p.Open(t.Context(), "cdc-relay.test"); err == nil {
		t.Fatal("it opened with the old password")
	}
	if err := p.Open(t.Context(), "cdc-relay.test"); err != nil {
		t.Fatal(err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		opts publisher.Options
		says string
	}{
		{publisher.Options{}, "kafka.brokers"},
		{publisher.Options{Brokers: []string{"kafka"}}, "host:port"},
		{publisher.Options{Brokers: []string{"k:1"}, Compression: "brotli"}, "zstd"},
		{publisher.Options{Brokers: []string{"k:1"}, TooLarge: "shrug"}, "stop or drop"},
		{publisher.Options{Brokers: []string{"k:1"}, SASL: &publisher.SASL{Mechanism: "KERBEROS"}}, "SCRAM-SHA-512"},
		{publisher.Options{Brokers: []string{"k:1"}, SASL: &publisher.SASL{Mechanism: "PLAIN"}}, "kafka.sasl.username"},
		{publisher.Options{Brokers: []string{"k:1"}, SASL: &publisher.SASL{Mechanism: "PLAIN", Username: "u"}}, "kafka.sasl.password"},
		{publisher.Options{Brokers: []string{"k:1"}, Create: &publisher.TopicSpec{}}, "topics.create"},
		{publisher.Options{Brokers: []string{"k:1"}, InFlight: -1}, "negative"},
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
		if _, err := publisher.New(publisher.Options{Brokers: []string{"k:1"}}, logger(t), reg); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDescribe(t *testing.T) {
	c := newCluster(t, 3, 4)
	createTopic(t, c.ListenAddrs(), "tight", 2, map[string]string{"min.insync.replicas": "2", "max.message.bytes": "5000"})
	p := unopened(t, options(c))
	d, err := p.Describe(t.Context(), []string{"t", "tight", "nowhere", "bad name!"})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Brokers) != 3 || d.ProducerID != nil {
		t.Errorf("%d brokers, producer id %v", len(d.Brokers), d.ProducerID)
	}
	for _, b := range d.Brokers {
		if b.Err != nil {
			t.Error(b.Err)
		}
	}
	byName := map[string]publisher.TopicInfo{}
	for _, tp := range d.Topics {
		byName[tp.Name] = tp
	}
	if tp := byName["t"]; tp.Err != nil || tp.Partitions != 4 || tp.MaxMessageBytes != 1048588 || tp.CleanupPolicy != "delete" || tp.Write == publisher.Denied {
		t.Errorf("topic t: %+v", tp)
	}
	if tp := byName["tight"]; tp.MinISR != 2 || len(tp.UnderMinISR) != 2 || tp.MaxMessageBytes != 5000 {
		t.Errorf("topic tight: %+v", tp)
	}
	if tp := byName["nowhere"]; !tp.Missing || tp.Err == nil {
		t.Errorf("topic nowhere: %+v", tp)
	}
	if tp := byName["bad name!"]; tp.Err == nil {
		t.Errorf("topic with a bad name: %+v", tp)
	}
}

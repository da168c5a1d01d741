package publisher

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/IBM/sarama"
)

// dialer makes connections to brokers: sarama speaks ApiVersions and SASL on them, the socket and the
// TLS handshake are ours, so that a context can end them at any moment and failures have a name.
type dialer struct {
	opts *Options
}

// open connects to addr and authenticates. The connection is closed when ctx ends: also under a call
// that is blocked, which sarama's own Close would wait for.
func (d *dialer) open(ctx context.Context, addr string) (*sarama.Broker, error) {
	conf, err := d.config()
	if err != nil {
		return nil, err
	}
	conf.Net.Proxy.Enable = true
	conf.Net.Proxy.Dialer = dialFunc(func(network, addr string) (net.Conn, error) {
		conn, err := d.dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &ownConn{Conn: conn, stop: context.AfterFunc(ctx, func() { _ = conn.Close() })}, nil
	})
	b := sarama.NewBroker(addr)
	if err := b.Open(conf); err != nil {
		return nil, fmt.Errorf("configure the connection to %s: %w", addr, err)
	}
	if ok, err := b.Connected(); !ok {
		_ = b.Close()
		return nil, d.explain(addr, err)
	}
	return b, nil
}

type dialFunc func(network, addr string) (net.Conn, error)

// Dial implements golang.org/x/net/proxy.Dialer.
func (f dialFunc) Dial(network, addr string) (net.Conn, error) { return f(network, addr) }

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.opts.DialTimeout)
	defer cancel()
	raw, err := (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err //nolint:wrapcheck // explain tells the causes apart
	}
	if d.opts.TLS == nil {
		return raw, nil
	}
	conn := tls.Client(raw, tlsFor(d.opts.TLS, addr))
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, &handshakeError{err}
	}
	return conn, nil
}

func tlsFor(conf *tls.Config, addr string) *tls.Config {
	conf = conf.Clone()
	if conf.ServerName == "" {
		conf.ServerName, _, _ = net.SplitHostPort(addr)
	}
	return conf
}

// ownConn is a connection that its context closes.
type ownConn struct {
	net.Conn
	stop    func() bool
	checked bool
}

func (c *ownConn) Close() error {
	c.stop()
	return c.Conn.Close() //nolint:wrapcheck // a net.Conn hands on its errors
}

// Read recognises a TLS record where a Kafka response should begin: a listener that wants TLS answers a
// plaintext request with an alert, which read as a length would be hundreds of megabytes.
func (c *ownConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.checked && n >= 2 {
		c.checked = true
		const alert, handshake, major = 0x15, 0x16, 0x03
		if (b[0] == alert || b[0] == handshake) && b[1] == major {
			return 0, errSpeaksTLS
		}
	}
	return n, err //nolint:wrapcheck // a net.Conn hands on its errors
}

// config is sarama's, made anew for each connection because it carries the password.
func (d *dialer) config() (*sarama.Config, error) {
	conf := sarama.NewConfig()
	conf.ClientID = d.opts.ClientID
	// The newest that sarama knows: every request is brought down to what the broker announces.
	conf.Version = sarama.MaxVersion
	conf.MetricRegistry = nilRegistry{}
	conf.Net.MaxOpenRequests = d.opts.InFlight + 1
	conf.Net.DialTimeout = d.opts.DialTimeout
	conf.Net.ReadTimeout = d.opts.RequestTimeout
	conf.Net.WriteTimeout = d.opts.RequestTimeout
	s := d.opts.SASL
	if s == nil {
		return conf, nil
	}
	password, err := s.Password()
	if err != nil {
		return nil, fmt.Errorf("read the Kafka password: %w", err)
	}
	conf.Net.SASL.Enable = true
	conf.Net.SASL.Mechanism = sarama.SASLMechanism(s.Mechanism)
	conf.Net.SASL.User = s.Username
	conf.Net.SASL.Password = password
	conf.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{mechanism: s.Mechanism} }
	return conf, nil
}

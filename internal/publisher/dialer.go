package publisher

import (
	"context"
	"crypto/tls"
	"errors"
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
// that is blocked, which sarama's own Close would wait for. A call fails that has no answer within the
// timeout.
func (d *dialer) open(ctx context.Context, addr string, timeout time.Duration) (*sarama.Broker, error) {
	conf, err := d.config(timeout)
	if err != nil {
		return nil, err
	}
	opening, opened := context.WithTimeout(ctx, d.opts.DialTimeout)
	defer opened()
	var conn *ownConn
	conf.Net.Proxy.Enable = true
	conf.Net.Proxy.Dialer = dialFunc(func(network, addr string) (net.Conn, error) {
		var err error
		conn, err = d.dial(ctx, opening, network, addr)
		return conn, err
	})
	b := sarama.NewBroker(addr)
	if err := b.Open(conf); err != nil {
		return nil, fmt.Errorf("configure the connection to %s: %w", addr, err)
	}
	ok, err := b.Connected()
	if ok && conn.inTime() {
		return b, nil
	}
	_ = b.Close()
	if opening.Err() != nil && (err == nil || errors.Is(err, net.ErrClosed)) {
		err = opening.Err() // that is why it was closed
	}
	return nil, d.explain(addr, err)
}

type dialFunc func(network, addr string) (net.Conn, error)

// Dial implements golang.org/x/net/proxy.Dialer.
func (f dialFunc) Dial(network, addr string) (net.Conn, error) { return f(network, addr) }

// dial connects before opening ends; the connection lives until ctx ends, or opening does and nobody has
// called inTime.
func (d *dialer) dial(ctx, opening context.Context, network, addr string) (*ownConn, error) {
	raw, err := (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext(opening, network, addr)
	if err != nil {
		return nil, err // explain tells the causes apart
	}
	if d.opts.TLS != nil {
		conn := tls.Client(raw, tlsFor(d.opts.TLS, addr))
		if err := conn.HandshakeContext(opening); err != nil {
			_ = raw.Close()
			return nil, &handshakeError{err}
		}
		raw = conn
	}
	end := func() { _ = raw.Close() }
	return &ownConn{Conn: raw, inTime: context.AfterFunc(opening, end), stop: context.AfterFunc(ctx, end)}, nil
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
	inTime, stop func() bool
	checked      bool
}

func (c *ownConn) Close() error {
	c.inTime()
	c.stop()
	return c.Conn.Close() // a net.Conn hands on its errors
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
	return n, err // a net.Conn hands on its errors
}

// config is sarama's, made anew for each connection because it carries the password.
func (d *dialer) config(timeout time.Duration) (*sarama.Config, error) {
	conf := sarama.NewConfig()
	conf.ClientID = d.opts.ClientID
	// The newest that sarama knows: every request is brought down to what the broker announces.
	conf.Version = sarama.MaxVersion
	conf.MetricRegistry = nilRegistry{}
	conf.Net.MaxOpenRequests = d.opts.InFlight + 1
	conf.Net.DialTimeout = d.opts.DialTimeout
	conf.Net.ReadTimeout, conf.Net.WriteTimeout = timeout, timeout
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

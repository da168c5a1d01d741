package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/IBM/sarama"
	gometrics "github.com/rcrowley/go-metrics"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/socket"
)

// Connect opens a connection to addr, which may have up to inFlight requests without a response, and authenticates.
// The connection is closed when ctx ends, also during a blocked call, which sarama's own Close would wait for. A
// request fails that has no response within [Options.RequestTimeout].
func (c *Client) Connect(ctx context.Context, addr string, inFlight int) (*Conn, error) {
	return c.connect(ctx, addr, c.opts.RequestTimeout, inFlight)
}

// connect leaves ApiVersions and SASL to sarama. The socket and the TLS handshake are done here, so that a context can
// end them at any time and their errors are told apart.
func (c *Client) connect(ctx context.Context, addr string, timeout time.Duration, inFlight int) (*Conn, error) {
	conf, err := c.config(ctx, timeout, inFlight)
	if err != nil {
		return nil, err
	}
	secure, err := c.tls(addr)
	if err != nil {
		return nil, err
	}
	opening, opened := context.WithTimeout(ctx, c.opts.DialTimeout)
	defer opened()
	var conn *ctxConn
	conf.Net.Proxy.Enable = true
	conf.Net.Proxy.Dialer = dialFunc(func(network, addr string) (_ net.Conn, err error) {
		conn, err = c.dial(ctx, opening, secure, network, addr)
		return conn, err
	})
	b := sarama.NewBroker(addr)
	if err := b.Open(conf); err != nil {
		return nil, fmt.Errorf("configure the connection to %s: %w", addr, err)
	}
	ok, err := b.Connected()
	if ok && conn.keep() {
		return &Conn{b, conn}, nil
	}
	_ = b.Close()
	if opening.Err() != nil && (err == nil || errors.Is(err, net.ErrClosed)) {
		err = opening.Err() // the reason for the close
	}
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() && conn != nil {
		err = errNoAnswer
	}
	if t, ok := conf.Net.SASL.TokenProvider.(*tokens); ok && errors.Is(err, sarama.ErrSASLAuthenticationFailed) {
		c.opts.SASL.refused.Store(t.last)
		err = fmt.Errorf("the broker refuses the token: %w", err)
	}
	return nil, c.explain(addr, err)
}

type dialFunc func(network, addr string) (net.Conn, error)

// Dial implements golang.org/x/net/proxy.Dialer.
func (f dialFunc) Dial(network, addr string) (net.Conn, error) { return f(network, addr) }

// dial connects before opening ends. The connection is closed when ctx ends, or when opening ends before a call of
// keep.
func (c *Client) dial(ctx, opening context.Context, secure *tls.Config, network, addr string) (*ctxConn, error) {
	raw, err := (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext(opening, network, addr)
	if err != nil {
		return nil, err // explain tells the causes apart
	}
	raw = socket.Direct(raw)
	if secure != nil {
		conn := tls.Client(raw, secure)
		if err := conn.HandshakeContext(opening); err != nil {
			_ = raw.Close()
			return nil, &handshakeError{err}
		}
		raw = conn
	}
	end := func() { _ = raw.Close() }
	return &ctxConn{Conn: raw, keep: context.AfterFunc(opening, end), stop: context.AfterFunc(ctx, end)}, nil
}

// tls returns the TLS configuration for a broker, nil for none.
func (c *Client) tls(addr string) (*tls.Config, error) {
	if c.opts.TLS == nil {
		return nil, nil //nolint:nilnil // crypto/tls's own word for no TLS
	}
	conf, err := c.opts.TLS()
	if err != nil {
		return nil, &credentialError{cdc.Stop(cdc.ClassConfig, "kafka_tls", fmt.Errorf("kafka.tls: %w", err), "correct the file, or its path")}
	}
	if conf = conf.Clone(); conf.ServerName == "" {
		conf.ServerName, _, _ = net.SplitHostPort(addr)
	}
	return conf, nil
}

// ctxConn is a connection that is closed when its context ends.
type ctxConn struct {
	net.Conn
	keep, stop func() bool
	checked    bool
	topics     []byte // of the produce request that is being sent; see Conn.Produce
	head       []byte // what goes before them
}

func (c *ctxConn) Close() error {
	c.keep()
	c.stop()
	return c.Conn.Close() // a net.Conn hands on its errors
}

// Read detects a TLS record in place of a Kafka response: a TLS listener answers a plaintext request with an alert,
// which read as a length would be hundreds of megabytes.
func (c *ctxConn) Read(b []byte) (int, error) {
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

// config is sarama's. Each connection gets a new one, because it holds the password.
func (c *Client) config(ctx context.Context, timeout time.Duration, inFlight int) (_ *sarama.Config, err error) {
	conf := sarama.NewConfig()
	conf.ClientID = c.opts.ClientID
	// The newest version that sarama knows: sarama lowers that of each request to what the broker supports.
	conf.Version = sarama.MaxVersion
	conf.MetricRegistry = nilRegistry{gometrics.NewRegistry()}
	conf.Net.MaxOpenRequests = inFlight + 1
	conf.Net.DialTimeout = c.opts.DialTimeout
	conf.Net.ReadTimeout, conf.Net.WriteTimeout = timeout, timeout
	s := c.opts.SASL
	if s == nil {
		return conf, nil
	}
	conf.Net.SASL.Enable = true
	conf.Net.SASL.Mechanism = sarama.SASLMechanism(s.Mechanism)
	if s.Mechanism == OAuthBearer {
		conf.Net.SASL.TokenProvider, err = newTokens(ctx, s)
		return conf, err
	}
	if conf.Net.SASL.Password, err = s.Password(ctx); err != nil {
		return nil, &credentialError{fmt.Errorf("read the Kafka password: %w", err)}
	}
	conf.Net.SASL.User = s.Username
	conf.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{mechanism: s.Mechanism} }
	return conf, nil
}

// Package kafka connects to Kafka and makes the requests that are not produce requests: metadata, topic settings, new
// topics, and the producer ID and epoch that fence an earlier relay. Connections, TLS, SASL and the text of
// connection errors are here too. Publishing is package publisher's.
package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Client sends requests to any broker that answers. It has a connection of its own, because sarama locks a connection
// while it waits for a response to them. It tries each broker once: retries are the caller's.
//
// One goroutine at a time may use a Client; [Client.Connect] may be called by several.
type Client struct {
	opts  Options
	known []string // addresses from metadata
	conn  *sarama.Broker
	// left and failed are the addresses whose answers were of no use, and that did not answer, last: they are tried after the others.
	left, failed string
}

// NewClient connects to nothing.
func NewClient(opts Options) *Client {
	opts.DialTimeout = cmp.Or(opts.DialTimeout, 5*time.Second)
	return &Client{opts: opts}
}

// Close closes the connection. The next request opens another one.
func (c *Client) Close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// Leave makes the next request go to another broker, if one answers: a broker that is cut off from the controllers still answers, with what
// it knew before.
func (c *Client) Leave() {
	if c.conn != nil {
		c.left = c.conn.Addr()
		c.Close()
	}
}

// request calls fn with a connected broker, and with the next one when fn gets no response, or [errNotController].
func (c *Client) request(ctx context.Context, fn func(*sarama.Broker) error) error {
	var errs []error
	if c.conn != nil {
		err := fn(c.conn)
		if err == nil || isResponse(err) {
			return err
		}
		errs = append(errs, fmt.Errorf("ask Kafka at %s: %w", c.conn.Addr(), err))
		c.failed = c.conn.Addr()
		c.Close()
	}
	for _, addr := range c.candidates() {
		b, err := c.open(ctx, addr)
		if err == nil {
			if err = fn(b); err == nil || isResponse(err) {
				c.conn = b
				return err
			}
			_ = b.Close()
			err = c.explain(addr, err)
		}
		var stop *cdc.StopError
		var credential *credentialError
		if errors.As(err, &stop) || errors.As(err, &credential) || ctx.Err() != nil {
			return err
		}
		c.failed = addr
		errs = append(errs, err)
	}
	if len(errs) > 1 {
		return fmt.Errorf("%w (and %d more attempts failed)", errs[0], len(errs)-1)
	}
	return errors.Join(errs...)
}

// candidates are the addresses to try, the announced ones first, each list from a random address on.
func (c *Client) candidates() []string {
	var all []string
	for _, list := range [][]string{c.known, c.opts.Brokers} {
		if len(list) > 0 {
			start := rand.IntN(len(list)) //nolint:gosec // only spreads load
			all = append(append(all, list[start:]...), list[:start]...)
		}
	}
	last := func(addr string) int { return slices.Index([]string{c.left, c.failed}, addr) }
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(last(a), last(b)) })
	tried := map[string]bool{}
	return slices.DeleteFunc(all, func(addr string) bool {
		again := tried[addr]
		tried[addr] = true
		return again
	})
}

// open connects for requests that brokers answer from memory: a broker that hangs is noticed sooner.
func (c *Client) open(ctx context.Context, addr string) (*sarama.Broker, error) {
	conn, err := c.connect(ctx, addr, c.opts.metadataTimeout(), 1)
	if err != nil {
		return nil, err
	}
	return conn.Broker, nil
}

func (o *Options) metadataTimeout() time.Duration { return min(o.RequestTimeout, 5*time.Second) }

// isResponse reports whether err is an error code that a broker sent, and not a lost connection.
func isResponse(err error) bool {
	var code sarama.KError
	return errors.As(err, &code)
}

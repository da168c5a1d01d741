package publisher

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// cluster asks whichever broker answers: for metadata, settings, producer ids and new topics. It has a
// connection of its own, because sarama locks a connection while it waits for such an answer. It is used
// by one goroutine at a time and tries each broker once: repeating is the caller's.
type cluster struct {
	d     *dialer
	seeds []string
	known []string // addresses from metadata
	// controller is the address of the broker that creates topics, where not every broker does (ZooKeeper).
	controller string
	b          *sarama.Broker
	// failed is the address that did not answer last; it is tried again after the others.
	failed string
}

// ask calls fn with a connected broker, and with the next one when that fails below the protocol.
func (c *cluster) ask(ctx context.Context, fn func(*sarama.Broker) error) error {
	var errs []error
	if c.b != nil {
		err := fn(c.b)
		if err == nil || isAnswer(err) {
			return err
		}
		errs = append(errs, fmt.Errorf("ask Kafka at %s: %w", c.b.Addr(), err))
		c.failed = c.b.Addr()
		c.close()
	}
	for _, addr := range c.candidates() {
		b, err := c.open(ctx, addr)
		if err == nil {
			if err = fn(b); err == nil || isAnswer(err) {
				c.b = b
				return err
			}
			_ = b.Close()
			err = c.d.explain(addr, err)
		}
		var stop *cdc.StopError
		if errors.As(err, &stop) || ctx.Err() != nil {
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

// candidates are the addresses to try, the announced ones first, from a random one on.
func (c *cluster) candidates() []string {
	var all []string
	for _, list := range [][]string{c.known, c.seeds} {
		if len(list) > 0 {
			start := rand.IntN(len(list)) //nolint:gosec // only spreads load
			all = append(append(all, list[start:]...), list[:start]...)
		}
	}
	uniq := make([]string, 0, len(all)+1)
	for _, addr := range all {
		if addr != c.failed && !slices.Contains(uniq, addr) {
			uniq = append(uniq, addr)
		}
	}
	if slices.Contains(all, c.failed) {
		uniq = append(uniq, c.failed)
	}
	return uniq
}

func (c *cluster) open(ctx context.Context, addr string) (*sarama.Broker, error) {
	return c.d.open(ctx, addr, c.d.opts.askTimeout())
}

// askTimeout is for questions that a broker answers from memory: one that hangs is noticed sooner.
func (o *Options) askTimeout() time.Duration { return min(o.RequestTimeout, 5*time.Second) }

func (c *cluster) close() {
	if c.b != nil {
		_ = c.b.Close()
		c.b = nil
	}
}

// isAnswer reports whether err is what a broker said, and not that it said nothing.
func isAnswer(err error) bool {
	var code sarama.KError
	return errors.As(err, &code)
}

// metadata returns what the cluster says of topics.
func (c *cluster) metadata(ctx context.Context, topics []string) (*sarama.MetadataResponse, error) {
	var res *sarama.MetadataResponse
	err := c.ask(ctx, func(b *sarama.Broker) error {
		req := sarama.NewMetadataRequest(sarama.MaxVersion, topics)
		req.AllowAutoTopicCreation = false
		req.IncludeTopicAuthorizedOperations = true
		r, err := b.GetMetadata(req)
		if err == nil && len(r.Brokers) == 0 {
			err = errStarting
		}
		res = r
		return err // ask wraps it
	})
	if err != nil {
		return nil, err
	}
	c.known = c.known[:0]
	for _, b := range res.Brokers {
		c.known = append(c.known, b.Addr())
		if b.ID() == res.ControllerID {
			c.controller = b.Addr()
		}
	}
	return res, nil
}

// errStarting: a broker that is starting up knows of no broker (KAFKA-7924).
var errStarting = errors.New("the broker knows of no broker yet")

// configs returns settings of topics; a topic that may not be described is left out.
func (c *cluster) configs(ctx context.Context, topics []string, names ...string) (map[string]map[string]string, error) {
	req := &sarama.DescribeConfigsRequest{Version: 4}
	for _, name := range topics {
		req.Resources = append(req.Resources, &sarama.ConfigResource{Type: sarama.TopicResource, Name: name, ConfigNames: names})
	}
	var res *sarama.DescribeConfigsResponse
	err := c.ask(ctx, func(b *sarama.Broker) error {
		var err error
		res, err = b.DescribeConfigs(req)
		return err // ask wraps it
	})
	if err != nil {
		return nil, err
	}
	all := make(map[string]map[string]string, len(res.Resources))
	for _, r := range res.Resources {
		if r.ErrorCode != 0 {
			continue
		}
		all[r.Name] = make(map[string]string, len(r.Configs))
		for _, entry := range r.Configs {
			all[r.Name][entry.Name] = entry.Value
		}
	}
	return all, nil
}

const maxMessageBytes = "max.message.bytes"

// limits returns max.message.bytes of the topics that may be described.
func (c *cluster) limits(ctx context.Context, topics []string) (map[string]int, error) {
	all, err := c.configs(ctx, topics, maxMessageBytes)
	if err != nil {
		return nil, err
	}
	limits := make(map[string]int, len(all))
	for name, settings := range all {
		if n, err := strconv.Atoi(settings[maxMessageBytes]); err == nil {
			limits[name] = n
		}
	}
	return limits, nil
}

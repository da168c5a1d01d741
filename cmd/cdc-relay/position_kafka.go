package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/finding"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/position"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/relay"
)

// places are the two places that hold a position beside the slot, for commands and for the start of at-least-once delivery: the
// topic of positions (K), which counts until at-least-once delivery supersedes it, and the store (C). A relay with exactly-once
// delivery uses the two apart.
type places struct {
	store
	position.Known // as they were read last

	config *config.Config
	id     cdc.Source // of this relay; zero: not known
}

// newPlaces returns the places for commands that show or change the position.
func newPlaces(ctx context.Context, c *config.Config) (*places, error) {
	s, err := newStore(ctx, c)
	if err != nil {
		return nil, err
	}
	return &places{store: s, config: c}, nil
}

// newPositions returns where commands read the position up to which events are published.
func newPositions(ctx context.Context, c *config.Config) (store, error) {
	s, err := newStore(ctx, c)
	if err != nil {
		return nil, err
	}
	return positionsIn(c, s), nil
}

func positionsIn(c *config.Config, s store) store {
	if c.Delivery == config.ExactlyOnce {
		return &places{store: s, config: c}
	}
	return s
}

// resumer returns what a run would load, or why it would refuse to start.
func resumer(c *config.Config, s store) cdc.Resumer {
	if p, ok := s.(*places); ok {
		return p.resume
	}
	return (&places{store: s, config: c}).resume
}

// checkpointer returns the store that a relay uses.
func checkpointer(c *config.Config, s store) relay.Checkpointer {
	if c.Delivery == config.AtLeastOnce {
		return &handover{places: &places{store: s, config: c}}
	}
	return s
}

// inKafka reports whether there may be a position in Kafka that a relay with this configuration can supersede.
func (p *places) inKafka() bool {
	return p.config.Delivery == config.ExactlyOnce || p.config.Kafka.PositionTopic != "" && p.config.Kafka.TransactionalID != kafka.TransactionalNone
}

// resume returns what a run would start from, or why it would refuse to.
func (p *places) resume(ctx context.Context, id cdc.Source) (cdc.Checkpoint, bool, error) {
	p.id = id
	if p.config.Delivery == config.ExactlyOnce {
		client, err := newKafkaClient(p.config)
		if err != nil {
			return cdc.Checkpoint{}, false, err
		}
		defer client.Close()
		if err := client.VerifyPositionTopic(ctx, p.config.Kafka.PositionTopic); err != nil {
			if p.read(ctx) != nil || !p.Committed {
				return cdc.Checkpoint{}, false, err
			}
			return p.Last, true, err // the position is moved to another topic
		}
	}
	if err := p.read(ctx); err != nil {
		return p.Stored, p.Found && !p.ExactlyOnce, err
	}
	return p.Newest(id)
}

// Load returns the newest position, whatever its source, and also if a run would refuse it. It may be called by several goroutines.
func (p *places) Load(ctx context.Context) (cdc.Checkpoint, bool, error) {
	p = &places{store: p.store, config: p.config, id: p.id}
	if err := p.read(ctx); err != nil {
		return cdc.Checkpoint{}, false, err
	}
	id := p.Stored.Source
	if p.Committed {
		id = p.Last.Source
	}
	c, found, err := p.Newest(id)
	if err != nil && errors.Is(err, p.Away) {
		return cdc.Checkpoint{}, false, err
	}
	return c, found, nil
}

// readStored reads the store, and forgets what was read before.
func (p *places) readStored(ctx context.Context) {
	stored, found, away := p.store.Load(ctx)
	p.remember(stored, found, away)
}

// remember takes what was read from the store, and forgets what was read before.
func (p *places) remember(stored cdc.Checkpoint, found bool, away error) {
	p.Known = position.Known{ExactlyOnce: p.config.Delivery == config.ExactlyOnce, Stored: stored, Found: found, Away: away}
	if p.inKafka() {
		p.Topic = p.config.Kafka.PositionTopic
	}
}

// read reads both places.
func (p *places) read(ctx context.Context) error {
	p.readStored(ctx)
	if stop, ok := errors.AsType[*cdc.StopError](p.Away); ok && stop.Reason != cdc.UnusableCheckpoint {
		return p.Away
	}
	return p.readKafka(ctx)
}

// readKafka reads the position in Kafka. At-least-once delivery ignores a topic that it has no right to, or that has something else:
// its own checkpoint counts then.
func (p *places) readKafka(ctx context.Context) (err error) {
	if !p.inKafka() {
		return nil
	}
	p.Last, p.Committed, err = p.newest(ctx)
	stop, stops := errors.AsType[*cdc.StopError](err)
	if err == nil && !p.ExactlyOnce && p.Committed && !p.Last.Source.Same(p.id) { // another relay's
		p.Last, p.Committed = cdc.Checkpoint{}, false
	}
	if !stops || p.ExactlyOnce || p.Stored.ExactlyOnce {
		return err
	}
	if stop.Class == cdc.ClassConfig || p.Found && stop.Reason == checkpoint.BadPosition {
		return nil
	}
	return err
}

// newest returns the position in Kafka, if there is one.
func (p *places) newest(ctx context.Context) (cdc.Checkpoint, bool, error) {
	k, err := p.publisher()
	if err != nil {
		return cdc.Checkpoint{}, false, err
	}
	last, found, err := checkpoint.NewTopic(k).Newest(ctx)
	if errors.Is(err, kafka.ErrTopicMissing) { // setup has yet to create it
		return last, false, nil
	}
	if err != nil {
		err = fmt.Errorf("read the position in Kafka: %w", err)
	}
	return last, found, err
}

// counts reports whether the position in Kafka is that of exactly-once delivery, which at-least-once delivery has not superseded.
func (p *places) counts() bool { return p.Committed && p.Last.ExactlyOnce }

// location says where the position is stored; "" if the slot alone holds it.
func (p *places) location() string {
	if p.config.Delivery == config.AtLeastOnce && p.counts() {
		return "Kafka topic " + p.Topic
	}
	return storeLocation(p.config)
}

// dropRead drops what resume has read, and reports whether the position in Kafka is kept: it is if it is this relay's and the checkpoint is
// another one's, which hides it or is in its way.
func (p *places) dropRead(ctx context.Context) (kept bool, err error) {
	if p.Committed && p.Last.Source.Same(p.id) && p.Found && !p.Stored.Source.Same(p.id) {
		return p.ExactlyOnce || p.counts(), p.store.Reset(ctx)
	}
	return false, p.Reset(ctx)
}

// set stores a position that a person gives, in place of what was read: in Kafka first if the position there counts, and in the
// store. It refuses if a relay has changed either since, and fences one that still runs.
func (p *places) set(ctx context.Context, c cdc.Checkpoint) error {
	c.Generation = max(c.Generation, p.Last.Generation+1, p.Stored.Generation+1)
	c.Progress.Part = cdc.Part{}
	if c.ExactlyOnce, c.PositionTopic = p.ExactlyOnce || p.counts(), ""; !c.ExactlyOnce {
		if err := p.sameStored(ctx); err != nil {
			return err
		}
		return p.replaceStored(ctx, c)
	}
	c.Fence, c.PositionTopic = p.fence(c.Source), p.Topic
	err := p.commit(ctx, c.Source, func(t *checkpoint.Topic) error {
		err := p.sameInKafka(ctx, t)
		if err == nil {
			err = p.sameStored(ctx)
		}
		if err != nil {
			return err
		}
		return t.Commit(ctx, c)
	})
	if err != nil {
		return err
	}
	if err := p.replaceStored(ctx, c); !errors.Is(err, cdc.ErrFenced) { // a relay has started from the position in Kafka
		return err
	}
	return nil
}

// replaceStored stores c in place of what was read.
func (p *places) replaceStored(ctx context.Context, c cdc.Checkpoint) error {
	err := p.Claim(ctx, c, p.Stored)
	if errors.Is(err, cdc.ErrStandby) {
		return cdc.Fixable("stop it first, then try again", "%w", err)
	}
	return err
}

// sameInKafka returns an error if the position in Kafka is another than the one that was read. The caller has fenced every relay
// with exactly-once delivery: none commits another one from now on.
func (p *places) sameInKafka(ctx context.Context, t *checkpoint.Topic) error {
	last, found, err := t.Last(ctx)
	if err != nil {
		return fmt.Errorf("read the position in Kafka: %w", err)
	}
	if found != p.Committed || last != p.Last {
		return startedMeanwhile()
	}
	return nil
}

func (p *places) sameStored(ctx context.Context) error {
	stored, found, err := p.store.Load(ctx)
	stop, stops := errors.AsType[*cdc.StopError](err)
	switch {
	case stops && stop.Reason == cdc.UnusableCheckpoint && p.Away != nil:
		err = nil // as it was
	case err == nil && (found != p.Found || stored != p.Stored):
		err = startedMeanwhile()
	}
	return err
}

func startedMeanwhile() error {
	return cdc.Fixable("stop the relay, then try again", "a relay has started and saved a position of its own meanwhile, so nothing was changed")
}

// Reset drops the position in both places.
func (p *places) Reset(ctx context.Context) error {
	p.readStored(ctx) // one that is unusable is what a reset is for
	err := p.readKafka(ctx)
	stop, stops := errors.AsType[*cdc.StopError](err)
	bad := stops && stop.Reason == checkpoint.BadPosition
	if bad {
		p.Last = cdc.Checkpoint{Generation: uint64(time.Now().UnixMilli())}
	} else if err != nil {
		return err
	}
	if bad || p.counts() || p.Committed && p.ExactlyOnce {
		err = p.commit(ctx, p.id, func(t *checkpoint.Topic) error {
			if !bad {
				if err := p.sameInKafka(ctx, t); err != nil {
					return err
				}
			}
			return t.Reset(ctx, p.Last)
		})
		if err != nil {
			return err
		}
	}
	return p.store.Reset(ctx)
}

func (p *places) publisher() (*publisher.Publisher, error) {
	c := *p.config
	c.Delivery = config.ExactlyOnce
	return newPublisher(&c, nil, func(string) {}, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
}

func (p *places) fence(id cdc.Source) string {
	return kafka.TransactionalID(p.config.Kafka.TransactionalID, position.Fence(id))
}

// commit fences every relay that may still publish, with this configuration or with an earlier one, and calls fn.
func (p *places) commit(ctx context.Context, id cdc.Source, fn func(*checkpoint.Topic) error) error {
	k, err := p.publisher()
	if err != nil {
		return err
	}
	defer k.Kill()
	fence := p.fence(id)
	if err := openPatiently(ctx, k, fence, position.EarlierFences(fence, id, p.Stored, p.Last)...); err != nil {
		return err
	}
	return fn(checkpoint.NewTopic(k))
}

// openPatiently repeats Open while the coordinator loads its state, or Kafka creates its topic of transactions.
func openPatiently(ctx context.Context, p *publisher.Publisher, fence string, replaced ...string) error {
	for since := time.Now(); ; {
		err := p.Open(ctx, fence, replaced...)
		var stop *cdc.StopError
		if err == nil || errors.As(err, &stop) || time.Since(since) > startTimeout {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(startTimeout / 20):
		}
	}
}

// Check adds what is at risk with the position in Kafka.
func (p *places) Check(ctx context.Context) []finding.Finding {
	var found []finding.Finding
	if _, none := p.store.(checkpoint.None); !none {
		found = p.store.Check(ctx)
	}
	client, err := newKafkaClient(p.config)
	if err != nil {
		return append(found, finding.Failed("position topic", err))
	}
	topics := []string{p.config.Kafka.PositionTopic, transactionState}
	d, err := client.Describe(ctx, topics, "")
	if err != nil {
		return found // the check of Kafka says so
	}
	for i := range d.Topics {
		found = append(found, positionFindings(&d.Topics[i])...)
	}
	if _, _, err := p.newest(ctx); err != nil {
		found = append(found, finding.Failed("position", err))
	}
	return found
}

// transactionState is Kafka's topic of transactions.
const transactionState = "__transaction_state"

// positionFindings are about the topic of positions, or about Kafka's own topic of transactions.
func positionFindings(t *kafka.TopicInfo) []finding.Finding {
	subject := "topic " + t.Name
	var found []finding.Finding
	if t.Name != transactionState {
		if err := t.PositionProblem(); err != nil {
			return []finding.Finding{finding.Failed(subject, err)}
		}
		found = append(found, finding.Finding{Severity: finding.OK, Subject: subject, Text: "can hold the position"})
	}
	if t.Err == nil && t.Settings == nil && (t.Replicas < 2 || t.MinISR < 2) {
		found = append(found, finding.Finding{
			Severity: finding.Warn, Subject: subject,
			Text: "the loss of one broker can lose what it holds, and events would be published twice: it has " + plural(t.Replicas, "replica") + fmt.Sprintf(" and min.insync.replicas is %d", t.MinISR),
			Fix:  "give it 3 replicas and min.insync.replicas=2",
		})
	}
	return found
}

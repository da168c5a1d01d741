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
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/relay"
)

// committed is the position of exactly-once delivery for commands: that in Kafka, and its copy in the store. A relay uses
// the two apart.
type committed struct {
	store

	config *config.Config
}

// newPositions returns the store of positions for commands.
func newPositions(ctx context.Context, c *config.Config) (store, error) {
	s, err := newStore(ctx, c)
	if err != nil {
		return nil, err
	}
	return positionsIn(c, s), nil
}

func positionsIn(c *config.Config, s store) store {
	if c.Delivery == config.ExactlyOnce {
		return &committed{s, c}
	}
	return s
}

func (s *committed) publisher() (*publisher.Publisher, error) {
	c := *s.config
	c.Delivery = config.ExactlyOnce
	return newPublisher(&c, nil, func(string) {}, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
}

// resumer returns what a run would load, or why it would refuse to start.
func resumer(c *config.Config, s store) cdc.Resumer {
	if k, ok := s.(*committed); ok {
		return k.resume
	}
	load := checkpointer(c, s).Load
	return func(ctx context.Context, _ cdc.Source) (cdc.Checkpoint, bool, error) { return load(ctx) }
}

// checkpointer returns the store that a relay uses.
func checkpointer(c *config.Config, s store) relay.Checkpointer {
	if c.Delivery == config.AtLeastOnce && c.Kafka.PositionTopic != "" && c.Kafka.TransactionalID != kafka.TransactionalNone {
		return &handover{store: s, config: c}
	}
	return s
}

func (s *committed) resume(ctx context.Context, id cdc.Source) (cdc.Checkpoint, bool, error) {
	client, err := newKafkaClient(s.config)
	if err != nil {
		return cdc.Checkpoint{}, false, err
	}
	defer client.Close()
	if err := client.VerifyPositionTopic(ctx, s.config.Kafka.PositionTopic); err != nil {
		return cdc.Checkpoint{}, false, err
	}
	p, err := s.positions(ctx)
	if err != nil {
		return cdc.Checkpoint{}, false, err
	}
	return p.Newest(id)
}

// Load returns the newest position, whatever its source, and also if a run would refuse it.
func (s *committed) Load(ctx context.Context) (cdc.Checkpoint, bool, error) {
	p, err := s.positions(ctx)
	if err == nil {
		err = p.Away
	}
	if err != nil {
		return cdc.Checkpoint{}, false, err
	}
	id := p.Stored.Source
	if p.Committed {
		id = p.Last.Source
	}
	c, found, _ := p.Newest(id)
	return c, found, nil
}

// positions loads those in Kafka and in the store.
func (s *committed) positions(ctx context.Context) (p relay.Positions, err error) {
	p.Topic = s.config.Kafka.PositionTopic
	if p.Last, p.Committed, err = s.inKafka(ctx); err != nil {
		return p, err
	}
	p.Stored, p.Found, p.Away = s.store.Load(ctx)
	if _, ok := errors.AsType[*cdc.StopError](p.Away); ok {
		return p, p.Away
	}
	if !p.Committed { // the next one must be above that of a reset
		p.Stored.Generation = max(p.Stored.Generation, p.Last.Generation)
	}
	return p, nil
}

// inKafka returns the position in Kafka, if there is one.
func (s *committed) inKafka(ctx context.Context) (cdc.Checkpoint, bool, error) {
	p, err := s.publisher()
	if err != nil {
		return cdc.Checkpoint{}, false, err
	}
	last, found, err := checkpoint.NewTopic(p).Newest(ctx)
	if errors.Is(err, kafka.ErrTopicMissing) { // setup has yet to create it
		return last, false, nil
	}
	if err != nil {
		err = fmt.Errorf("read the position in Kafka: %w", err)
	}
	return last, found, err
}

// Save fences a relay that still runs, and stores c in both places.
func (s *committed) Save(ctx context.Context, c cdc.Checkpoint) error {
	c.ExactlyOnce, c.Fence, c.Progress.Part = true, s.fence(c.Source), cdc.Part{}
	if err := s.commit(ctx, c.Fence, func(t *checkpoint.Topic) error { return t.Commit(ctx, c) }); err != nil {
		return err
	}
	return s.store.Save(ctx, c)
}

// Reset drops the position in both places.
func (s *committed) Reset(ctx context.Context) error {
	c, found, err := s.inKafka(ctx)
	if stop, ok := errors.AsType[*cdc.StopError](err); ok && stop.Class == cdc.ClassPosition { // not a position
		c, found, err = cdc.Checkpoint{Generation: uint64(time.Now().UnixMilli())}, true, nil
	}
	if err != nil {
		return err
	}
	if found {
		err = s.commit(ctx, s.fence(c.Source), func(t *checkpoint.Topic) error { return t.Reset(ctx, c) })
	}
	if err != nil {
		return err
	}
	return s.store.Reset(ctx)
}

func (s *committed) fence(id cdc.Source) string {
	return kafka.TransactionalID(s.config.Kafka.TransactionalID, relay.Fence(id))
}

func (s *committed) commit(ctx context.Context, fence string, fn func(*checkpoint.Topic) error) error {
	p, err := s.publisher()
	if err != nil {
		return err
	}
	defer p.Kill()
	if err := openPatiently(ctx, p, fence); err != nil {
		return err
	}
	return fn(checkpoint.NewTopic(p))
}

// openPatiently repeats Open while the coordinator loads its state, or Kafka creates its topic of transactions.
func openPatiently(ctx context.Context, p *publisher.Publisher, fence string) error {
	for since := time.Now(); ; {
		err := p.Open(ctx, fence)
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

// handover is the store of at-least-once delivery where exactly-once delivery may have been before: its last position
// counts, and is superseded in Kafka before anything is published.
type handover struct {
	store

	config *config.Config
	stored cdc.Checkpoint
	last   *cdc.Checkpoint // nil: there is none, or it is superseded
}

// Load returns the position in Kafka if it is newer than what is stored.
func (h *handover) Load(ctx context.Context) (cdc.Checkpoint, bool, error) {
	var found bool
	var err error
	h.last = nil
	if h.stored, found, err = h.store.Load(ctx); err != nil || found && !h.stored.ExactlyOnce {
		return h.stored, found, err
	}
	kafkas := committed{h.store, h.config}
	last, ok, err := kafkas.inKafka(ctx)
	var stop *cdc.StopError
	switch {
	case errors.As(err, &stop) && stop.Class == cdc.ClassConfig && !h.stored.ExactlyOnce: // not ours to read
		return h.stored, found, nil
	case err != nil:
		return h.stored, false, err
	case !ok, !counts(last, h.stored, found):
		return h.stored, found, nil
	}
	h.last = &last
	return last, true, nil
}

// counts reports whether the position in Kafka counts, and not the copy of one that is stored: unless it was superseded, and
// also then if the start that did it ended before it could store its own.
func counts(last, stored cdc.Checkpoint, found bool) bool {
	if found && stored.Generation != last.Generation {
		return last.Generation > stored.Generation
	}
	return last.ExactlyOnce
}

// Claim supersedes the position in Kafka first: exactly-once delivery would start from it again. Afterwards it notes there that
// the store has the claim, so that a store that is rolled back behind it is noticed.
func (h *handover) Claim(ctx context.Context, next, _ cdc.Checkpoint) error {
	if h.last == nil {
		return h.store.Claim(ctx, next, h.stored)
	}
	kafkas := committed{h.store, h.config}
	superseded := next
	superseded.ExactlyOnce, superseded.Fence = false, kafkas.fence(next.Source)
	err := kafkas.commit(ctx, superseded.Fence, func(t *checkpoint.Topic) error {
		if err := t.Commit(ctx, superseded); err != nil {
			return err
		}
		if err := h.store.Claim(ctx, next, h.stored); err != nil {
			return err
		}
		superseded.Sequence = relay.Claimed
		return t.Commit(ctx, superseded)
	})
	if err != nil {
		return fmt.Errorf("supersede the position in Kafka: %w", err)
	}
	return nil
}

// Check adds what is at risk with the position in Kafka.
func (s *committed) Check(ctx context.Context) []finding.Finding {
	var found []finding.Finding
	if _, none := s.store.(checkpoint.None); !none {
		found = s.store.Check(ctx)
	}
	client, err := newKafkaClient(s.config)
	if err != nil {
		return append(found, finding.Failed("position topic", err))
	}
	topics := []string{s.config.Kafka.PositionTopic, transactionState}
	d, err := client.Describe(ctx, topics, "")
	if err != nil {
		return found // the check of Kafka says so
	}
	for i := range d.Topics {
		found = append(found, positionFindings(&d.Topics[i])...)
	}
	if _, _, err := s.inKafka(ctx); err != nil {
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

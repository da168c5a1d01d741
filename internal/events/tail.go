package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/stages"
)

// Event is a record with its time, and with its offset once it is in Kafka.
type Event struct {
	Time   time.Time `json:"time"`
	Offset *int64    `json:"offset,omitempty"`
	Record
}

// Tail shows events as they are published.
type Tail struct {
	Filter Filter
	// Topics are those whose events are shown; nil: those of the routes.
	Topics []string
	// Show is called by one goroutine at a time.
	Show func(*Event) error

	showing sync.Mutex
}

func (t *Tail) show(e *Event) error {
	if !t.Filter.selects(&e.Record) {
		return nil
	}
	t.showing.Lock()
	defer t.showing.Unlock()
	return t.Show(e)
}

// FromSource shows what the relay would publish from now on.
func (t *Tail) FromSource(ctx context.Context, c *config.Config, log *slog.Logger) error {
	return FromSource(ctx, c, log, func(r *Record) error {
		if t.Topics != nil && !slices.Contains(t.Topics, r.Topic) {
			return nil
		}
		at, _ := time.Parse(time.RFC3339Nano, r.About.CommitTime) // without it the time is not known
		if err := t.show(&Event{Time: at, Record: *r}); err != nil {
			return fmt.Errorf("print event: %w", err)
		}
		return nil
	})
}

// FromTopics shows what is published from now on.
func (t *Tail) FromTopics(ctx context.Context, c *config.Config, log *slog.Logger) error {
	partitions, missing, err := partitions(ctx, c, t.Topics)
	if err != nil {
		return err
	}
	if missing != "" {
		return cdc.Usage("correct --topic, or start the relay so that the topic is created", "--topic: topic %q does not exist", missing)
	}
	following, ctx := errgroup.WithContext(ctx)
	var ready sync.WaitGroup
	for topic, n := range partitions {
		for partition := range n {
			ready.Add(1)
			following.Go(func() error { return t.follow(ctx, c, topic, partition, ready.Done, log) })
		}
	}
	ready.Wait()
	log.Info("printing events from now on", "topics", len(partitions))
	err = following.Wait()
	if ctx.Err() != nil && err == nil {
		return nil
	}
	return err
}

// follow prints the records of a partition from its present end on, also when its leader moves. ready is called once that end is
// known, or cannot be.
func (t *Tail) follow(ctx context.Context, c *config.Config, topic string, partition int32, ready func(), log *slog.Logger) error {
	client, err := stages.KafkaClient(c)
	if err != nil {
		ready()
		return err
	}
	defer client.Close()
	next, err := client.OffsetAt(ctx, topic, partition, time.Now().Add(time.Hour))
	ready()
	printer := newPrinter(c)
	for err == nil {
		var shown error
		err = client.Follow(ctx, topic, partition, next, func(r *kafka.Record) error {
			next = r.Offset + 1
			m := cdc.Message{Topic: topic, Partition: r.Partition + 1, Key: r.Key, Headers: r.Headers, Value: r.Value}
			rec := Event{Time: r.Time, Offset: &r.Offset, Record: printer.record(&m)}
			shown = t.show(&rec)
			return shown
		})
		if shown != nil || !mayPass(err) {
			break
		}
		log.Warn("reading failed, trying again", "topic", topic, "partition", partition, "offset", next, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(c.Retry.Initial):
		}
		err = ctx.Err()
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// mayPass reports whether reading may succeed later: the leader moved, or a broker is away.
func mayPass(err error) bool {
	_, stop := errors.AsType[*cdc.StopError](err)
	return !stop && !errors.Is(err, sarama.ErrOffsetOutOfRange)
}

// partitions returns how many partitions each topic has: those that are given, or else those of the routes. missing is one that is given
// and does not exist.
func partitions(ctx context.Context, c *config.Config, topics []string) (found map[string]int32, missing string, err error) {
	client, err := stages.KafkaClient(c)
	if err != nil {
		return nil, "", err
	}
	defer client.Close()
	md, err := client.Metadata(ctx, nil)
	if err != nil {
		return nil, "", err
	}
	found = map[string]int32{}
	for _, topic := range md.Topics {
		if !slices.Contains(stages.Reserved(c), topic.Name) && (slices.Contains(topics, topic.Name) || topics == nil && routed(c, topic.Name)) {
			found[topic.Name] = int32(len(topic.Partitions))
		}
	}
	for _, name := range topics {
		if found[name] == 0 {
			return nil, name, nil
		}
	}
	if len(found) == 0 {
		return nil, "", cdc.Fixable("name a topic with --topic, or use --source", "no topic of routes exists yet")
	}
	return found, "", nil
}

// routed reports whether a route may lead to a topic.
func routed(c *config.Config, topic string) bool {
	variable := regexp.MustCompile(`\\\$\\\{[^}]*\\\}`)
	for _, r := range c.Routes {
		pattern := variable.ReplaceAllString(regexp.QuoteMeta(c.EventTopic(r.Topic)), ".+")
		if ok, err := regexp.MatchString("^(?:"+pattern+")$", topic); err == nil && ok {
			return true
		}
	}
	return false
}

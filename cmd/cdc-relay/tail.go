package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/IBM/sarama"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/stages"
)

// tailRun is one run of the command tail.
type tailRun struct {
	filter          filter
	topics          []string
	source, payload bool
	output          outputFlag

	mu  sync.Mutex // guards out
	out io.Writer
}

func newTailCommand(a *app) *cobra.Command {
	t := tailRun{out: a.stdout}
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print events as they are published",
		Long: `Print a line for each event that is published from now on: time, topic, key, type and ID. Without --topic it reads the
topics of the routes, as far as they exist.

With --source it reads the WAL or binlog, through a temporary slot on PostgreSQL, and prints what the relay would
publish. Neither uses or moves a position. Filters are combined; one that is repeated selects any of its values.`,
		Example: `  cdc-relay tail
  cdc-relay tail --type OrderPlaced --payload
  cdc-relay tail --source --key order-42 -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := t.filter.check(); err != nil {
				return err
			}
			c, err := a.load()
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(a.stderr, nil))
			if t.source {
				return readSource(cmd.Context(), c, &tailSink{&t, make(chan cdc.Durable, 1)}, log)
			}
			return t.fromTopics(cmd.Context(), c, log)
		},
	}
	t.filter.add(cmd)
	t.output.add(cmd)
	cmd.Flags().StringArrayVar(&t.topics, "topic", nil, "events of this `topic` (may be repeated)")
	cmd.Flags().BoolVar(&t.source, "source", false, "read the WAL or binlog, not the topics")
	cmd.Flags().BoolVar(&t.payload, "payload", false, "print the payloads too")
	return cmd
}

// tailed is an event in JSON.
type tailed struct {
	Time      time.Time `json:"time"`
	Partition *int32    `json:"partition,omitempty"`
	Offset    *int64    `json:"offset,omitempty"`
	printedRecord
}

// show writes an event that the filter selects.
func (t *tailRun) show(rec *tailed) error {
	if !t.filter.selects(&rec.printedRecord) {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.payload {
		rec.Value, rec.ValueBase64 = nil, nil
	}
	if t.output.json() {
		return json.NewEncoder(t.out).Encode(rec)
	}
	line := eventLine(rec.Time.UTC().Format("2006-01-02T15:04:05.000Z"), &rec.printedRecord)
	switch {
	case rec.Value != nil:
		line += "  " + display.Escaped(*rec.Value)
	case rec.ValueBase64 != nil:
		line += fmt.Sprintf("  (%d bytes)", len(rec.ValueBase64))
	}
	_, err := fmt.Fprintln(t.out, line)
	return err
}

// selects reports whether a record has the values.
func (f *filter) selects(r *printedRecord) bool {
	among := func(values []string, value string) bool { return len(values) == 0 || slices.Contains(values, value) }
	key := ""
	if r.Key != nil {
		key = *r.Key
	}
	return among(f.IDs, r.Headers["ce_id"]) && among(f.Keys, key) && among(f.Types, r.Headers["ce_type"]) &&
		among(f.Aggregates, r.Headers["ce_aggregatetype"]) && among(f.Tenants, r.Headers["ce_tenant"])
}

// tailSink is a sink that prints the events.
type tailSink struct {
	tail    *tailRun
	durable chan cdc.Durable
}

func (s *tailSink) Open(context.Context, string, ...string) error { return nil }

func (s *tailSink) Send(ctx context.Context, r *cdc.Routed) error {
	for i := range r.Messages {
		rec := tailed{printedRecord: printed(&r.Messages[i])}
		if at, err := time.Parse(time.RFC3339Nano, rec.Headers["ce_committime"]); err == nil {
			rec.Time = at
		}
		if s.tail.topics != nil && !slices.Contains(s.tail.topics, rec.Topic) {
			continue
		}
		if err := s.tail.show(&rec); err != nil {
			return fmt.Errorf("print event: %w", err)
		}
	}
	select {
	case s.durable <- cdc.Durable{First: r.Seq(), Last: r.Seq()}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *tailSink) Durable() <-chan cdc.Durable { return s.durable }

func (s *tailSink) Kill() {}

func (s *tailSink) Reset() {}

func (s *tailSink) Fenced(context.Context) bool { return false }

// fromTopics prints what is published from now on.
func (t *tailRun) fromTopics(ctx context.Context, c *config.Config, log *slog.Logger) error {
	partitions, err := t.partitions(ctx, c)
	if err != nil {
		return err
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
func (t *tailRun) follow(ctx context.Context, c *config.Config, topic string, partition int32, ready func(), log *slog.Logger) error {
	client, err := stages.KafkaClient(c)
	if err != nil {
		ready()
		return err
	}
	defer client.Close()
	next, err := client.OffsetAt(ctx, topic, partition, time.Now().Add(time.Hour))
	ready()
	for err == nil {
		var shown error
		err = client.Follow(ctx, topic, partition, next, func(r *kafka.Record) error {
			next = r.Offset + 1
			rec := tailed{Time: r.Time, Partition: &r.Partition, Offset: &r.Offset, printedRecord: printedKafka(topic, r)}
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

func printedKafka(topic string, r *kafka.Record) printedRecord {
	rec := printed(&cdc.Message{Topic: topic, Key: r.Key, Headers: r.Headers})
	if r.Value == nil {
		return rec
	}
	if utf8.Valid(r.Value) {
		value := string(r.Value)
		rec.Value = &value
	} else {
		rec.ValueBase64 = r.Value
	}
	return rec
}

// partitions returns how many partitions each topic has: those that are given, or else those of the routes.
func (t *tailRun) partitions(ctx context.Context, c *config.Config) (map[string]int32, error) {
	client, err := stages.KafkaClient(c)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	md, err := client.Metadata(ctx, nil)
	if err != nil {
		return nil, err
	}
	found := map[string]int32{}
	for _, topic := range md.Topics {
		if !slices.Contains(stages.Reserved(c), topic.Name) && (slices.Contains(t.topics, topic.Name) || t.topics == nil && routed(c, topic.Name)) {
			found[topic.Name] = int32(len(topic.Partitions))
		}
	}
	for _, name := range t.topics {
		if found[name] == 0 {
			return nil, cdc.Usage("correct --topic, or start the relay so that the topic is created", "--topic: topic %q does not exist", name)
		}
	}
	if len(found) == 0 {
		return nil, cdc.Fixable("name a topic with --topic, or use --source", "no topic of routes exists yet")
	}
	return found, nil
}

// routed reports whether a route may lead to a topic.
func routed(c *config.Config, topic string) bool {
	variable := regexp.MustCompile(`\\\$\\\{[^}]*\\\}`)
	for _, r := range c.Routes {
		pattern := variable.ReplaceAllString(regexp.QuoteMeta(r.Topic), ".+")
		if ok, err := regexp.MatchString("^(?:"+pattern+")$", topic); err == nil && ok {
			return true
		}
	}
	return false
}

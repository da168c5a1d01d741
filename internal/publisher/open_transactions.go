package publisher

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// openWatch looks for transactions that stay open in the topics that are published to, whoever began them, and reports
// each with the command that ends it. It is not part of the loop: it has a connection of its own, and nothing waits for it.
type openWatch struct {
	opts    *Options
	log     *slog.Logger
	metrics *metrics
	client  *kafka.Client

	seen  map[openKey]*openTransaction
	shown map[openLabels]bool
	said  map[string]bool // lines about what cannot be looked at
}

// openLabels are the metric's.
type openLabels [5]string

// openKey is a transaction in a partition.
type openKey struct {
	topic     string
	partition int32
	producer  int64
	start     int64
}

type openTransaction struct {
	since    time.Time // when it was first seen
	reported kafka.Ending
}

func newOpenWatch(opts *Options, log *slog.Logger, m *metrics) (*openWatch, error) {
	client, err := kafka.NewClient(opts.Kafka)
	return &openWatch{opts: opts, log: log, metrics: m, client: client, said: map[string]bool{}}, err
}

// run looks from time to time until ctx ends. published returns the topics, and the producer whose transactions are the
// publisher's own.
func (w *openWatch) run(ctx context.Context, transactionalID string, published func(context.Context) ([]string, kafka.Producer, error)) {
	defer w.show(nil) // a standby does not look
	tick := time.NewTicker(w.opts.Timing.OpenInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		topics, own, err := published(ctx)
		if err == nil {
			err = w.look(ctx, transactionalID, topics, own)
		}
		switch {
		case errors.Is(err, kafka.ErrTransactionsUnknown):
			w.say(err)
			return
		case err != nil && ctx.Err() == nil: // what was seen stands
			w.log.Debug("open transactions not looked for", slog.Any("error", err))
		}
	}
}

// look reports the transactions that have been open for long, and forgets those that have ended.
func (w *openWatch) look(ctx context.Context, transactionalID string, topics []string, own kafka.Producer) error {
	now, before := w.opts.Timing.Now(), w.seen
	seen := map[openKey]*openTransaction{}
	open, err := w.client.OpenTransactions(ctx, topics, func(t *kafka.OpenTransaction) bool {
		if t.Producer == own {
			return false
		}
		key := keyOf(t)
		if seen[key] = before[key]; seen[key] == nil {
			seen[key] = &openTransaction{since: now}
		}
		return now.Sub(seen[key].since) >= w.opts.Timing.LongOpen
	})
	if err != nil {
		return err
	}
	w.seen = seen
	shown := map[openLabels]bool{}
	for i := range open.All[:min(len(open.All), maxOpenReported)] {
		shown[w.report(&open.All[i], transactionalID)] = true
	}
	w.show(shown)
	for key, t := range before {
		if t.reported != "" && seen[key] == nil {
			w.log.Info("transaction has ended", "topic", key.topic, "partition", key.partition, "producer_id", key.producer)
		}
	}
	if err := open.DeniedError(); err != nil {
		w.say(err)
	}
	return nil
}

// maxOpenReported bounds the metric's series and the lines of the log: a producer that hangs may have written to every partition.
const maxOpenReported = 100

func keyOf(t *kafka.OpenTransaction) openKey {
	return openKey{t.Topic, t.Partition, t.Producer.ID, t.Start}
}

// report logs a transaction once, and again if it is known now how it ends, and sets its metric.
func (w *openWatch) report(t *kafka.OpenTransaction, transactionalID string) openLabels {
	known := w.seen[keyOf(t)]
	if known.reported != t.Ending {
		known.reported = t.Ending
		w.log.Warn("a transaction holds back consumers", slog.String("topic", t.Topic), slog.Int("partition", int(t.Partition)),
			slog.Any("error", t.Problem(transactionalID)))
	}
	labels := openLabels{
		t.Topic, strconv.Itoa(int(t.Partition)), strconv.FormatInt(t.Producer.ID, 10), strconv.FormatInt(t.Start, 10), string(t.Ending),
	}
	w.metrics.open.WithLabelValues(labels[:]...).Set(float64(known.since.UnixMilli()) / 1e3)
	return labels
}

// show removes what is not shown any more from the metric.
func (w *openWatch) show(shown map[openLabels]bool) {
	for labels := range w.shown {
		if !shown[labels] {
			w.metrics.open.DeleteLabelValues(labels[:]...)
		}
	}
	w.shown = shown
}

// say logs an error that lasts, once.
func (w *openWatch) say(err error) {
	if !w.said[err.Error()] {
		w.said[err.Error()] = true
		w.log.Info("open transactions are not looked for", slog.Any("error", err))
	}
}

// published returns the topics that are watched, and the present producer.
func (p *Publisher) published(ctx context.Context) ([]string, kafka.Producer, error) {
	all, producer, done := slices.Clone(p.opts.Watched), kafka.Producer{}, make(chan struct{})
	p.mail.post(call(func(l *loop) {
		all, producer = slices.AppendSeq(all, maps.Keys(l.topics)), l.producer
		close(done)
	}))
	if err := await(ctx, p, done); err != nil {
		return nil, kafka.Producer{}, err
	}
	slices.Sort(all)
	return slices.Compact(all), producer, nil
}

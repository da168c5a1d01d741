package publisher

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the publisher's; the children of a topic are resolved once, in newTopicMetrics.
type metrics struct {
	published   *prometheus.CounterVec
	bytes       *prometheus.CounterVec
	errors      *prometheus.CounterVec
	dropped     *prometheus.CounterVec
	produce     *prometheus.HistogramVec
	ack         *prometheus.HistogramVec
	unavailable prometheus.Gauge
}

// droppedHelp is also the relay's, which counts in the same metric: a registry refuses two texts for one.
const droppedHelp = "Events not published because the configuration says so (errors.*: drop, errors.skip)."

// topicMetrics are one topic's.
type topicMetrics struct {
	published, bytes prometheus.Counter
	produce, ack     prometheus.Observer
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		published: counter("events_published_total", "Events that Kafka acknowledged.", "topic"),
		bytes:     counter("published_bytes_total", "Bytes of acknowledged events, before compression.", "topic"),
		errors:    counter("publish_errors_total", "Refused or failed attempts to publish a batch.", "topic", "reason"),
		dropped:   counter("events_dropped_total", droppedHelp, "reason"),
		produce:   histogram("produce_seconds", "From sending a batch to its acknowledgement."),
		ack:       histogram("commit_to_ack_seconds", "From the commit of a transaction to Kafka's acknowledgement."),
		unavailable: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "cdc_relay_kafka_unavailable_since_timestamp_seconds",
			Help: "Since when no Kafka broker has answered; 0 while one does.",
		}),
	}
	errs := []error{
		register(reg, &m.published), register(reg, &m.bytes), register(reg, &m.errors), register(reg, &m.dropped),
		register(reg, &m.produce), register(reg, &m.ack), register(reg, &m.unavailable),
	}
	return m, errors.Join(errs...)
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cdc_relay_" + name, Help: help}, labels)
}

func histogram(name, help string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "cdc_relay_" + name, Help: help,
		Buckets:                        []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		NativeHistogramBucketFactor:    1.1,
		NativeHistogramMaxBucketNumber: 160,
	}, []string{"topic"})
}

// register adds c to reg, or puts the one in its place that another publisher or stage has registered.
func register[C prometheus.Collector](reg prometheus.Registerer, c *C) error {
	if reg == nil {
		return nil
	}
	err := reg.Register(*c)
	if there, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if existing, ok := there.ExistingCollector.(C); ok {
			*c = existing
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}

func (m *metrics) topic(name string) topicMetrics {
	return topicMetrics{
		published: m.published.WithLabelValues(name), bytes: m.bytes.WithLabelValues(name),
		produce: m.produce.WithLabelValues(name), ack: m.ack.WithLabelValues(name),
	}
}

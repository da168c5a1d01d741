package publisher

import (
	"math"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// maxTopicSeries is how many topics have series of their own: those with an acknowledged record, in the order of their first one. All
// others are counted as otherTopics, because a row may name any topic.
const (
	maxTopicSeries = 1000
	otherTopics    = "other"
)

// metrics are the publisher's. Those of a topic are looked up once, in topic. Only the loop uses those with a topic.
type metrics struct {
	named     map[string]bool // the topics with series of their own
	published *prometheus.CounterVec
	errors    errorCounter
	produce   prometheus.Histogram
	ack       latency
	topicAck  *prometheus.HistogramVec
	letters   *prometheus.CounterVec
}

// topicMetrics are one topic's.
type topicMetrics struct {
	published prometheus.Counter
	ack       prometheus.Observer
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		named:     map[string]bool{},
		published: counter("events_published_total", "Events that Kafka acknowledged.", "topic"),
		produce:   prometheus.NewHistogram(histogram("produce_seconds", "From sending a batch to its acknowledgement.")),
		ack:       latency{Histogram: prometheus.NewHistogram(histogram("commit_to_ack_seconds", "From the commit of a batch's oldest event to Kafka's acknowledgement."))},
		topicAck:  prometheus.NewHistogramVec(histogram("page_commit_to_ack_seconds", "As commit_to_ack_seconds, by topic, for the page."), []string{"topic"}),
	}
	m.errors = errorCounter{counter("publish_errors_total", "Refused or failed attempts to publish a batch.", "topic", "reason"), m.named}
	m.letters = counter("dead_letter_events_total", "Events that became dead letters.", "reason")
	reg.MustRegister(m.letters, m.published, m.errors.CounterVec, m.produce, m.ack.Histogram, m.topicAck)
	return m
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cdc_relay_" + name, Help: help}, labels)
}

// histogram is native. The classic buckets are served if http.classic_histograms says so.
func histogram(name, help string) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: "cdc_relay_" + name, Help: help,
		Buckets:                        []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		NativeHistogramBucketFactor:    1.1,
		NativeHistogramMaxBucketNumber: 160,
	}
}

// errorCounter counts errors by topic and reason.
type errorCounter struct {
	*prometheus.CounterVec

	named map[string]bool
}

// WithLabelValues returns the counter of a topic, or that of all topics without series of their own.
func (c errorCounter) WithLabelValues(topic, reason string) prometheus.Counter {
	if !c.named[topic] {
		topic = otherTopics
	}
	return c.CounterVec.WithLabelValues(topic, reason)
}

// topic returns the metrics of a topic that has its first acknowledged record.
func (m *metrics) topic(name string) topicMetrics {
	if m.named[name] || len(m.named) < maxTopicSeries {
		m.named[name] = true
	} else {
		name = otherTopics
	}
	return topicMetrics{published: m.published.WithLabelValues(name), ack: m.topicAck.WithLabelValues(name)}
}

// reasonOf is the value of the label reason.
func reasonOf(code sarama.KError) string {
	names := map[sarama.KError]string{
		sarama.ErrUnknownTopicOrPartition:      "unknown_topic_or_partition",
		sarama.ErrLeaderNotAvailable:           "leader_not_available",
		sarama.ErrNotLeaderForPartition:        "not_leader_or_follower",
		sarama.ErrRequestTimedOut:              "request_timed_out",
		sarama.ErrMessageSizeTooLarge:          "message_too_large",
		sarama.ErrMessageSetSizeTooLarge:       "record_list_too_large",
		sarama.ErrNotEnoughReplicas:            "not_enough_replicas",
		sarama.ErrNotEnoughReplicasAfterAppend: "not_enough_replicas_after_append",
		sarama.ErrTopicAuthorizationFailed:     "topic_authorization_failed",
		sarama.ErrClusterAuthorizationFailed:   "cluster_authorization_failed",
		sarama.ErrOutOfOrderSequenceNumber:     "out_of_order_sequence_number",
		sarama.ErrUnknownProducerID:            "unknown_producer_id",
		sarama.ErrInvalidProducerEpoch:         "invalid_producer_epoch",
		sarama.ErrInvalidTimestamp:             "invalid_timestamp",
		sarama.ErrInvalidRecord:                "invalid_record",
		sarama.ErrInvalidMessage:               "corrupt_message",
		sarama.ErrKafkaStorageError:            "kafka_storage_error",
		sarama.ErrPolicyViolation:              "policy_violation",
		sarama.ErrUnknown:                      "unknown_server_error",
	}
	if name, ok := names[code]; ok {
		return name
	}
	return "other"
}

// latency is the histogram of the time from commit to acknowledgement. Some observations carry the trace ID of their event, an
// exemplar.
type latency struct {
	prometheus.Histogram

	// due is when each power of two of seconds may have a new exemplar: so a slow event has one although most are fast, and looking for a
	// header costs nothing for each batch.
	due [16]time.Time
}

const exemplarInterval = time.Second

// observe records the latency of a batch whose oldest event is m.
func (l *latency) observe(v float64, m *cdc.Message, now time.Time) {
	i := min(max(0, math.Ilogb(v)+10), len(l.due)-1) // from a millisecond on
	if now.Before(l.due[i]) {
		l.Observe(v)
		return
	}
	l.due[i] = now.Add(exemplarInterval)
	exemplars, ok := l.Histogram.(prometheus.ExemplarObserver)
	if id := sampledTrace(m); ok && id != "" {
		exemplars.ObserveWithExemplar(v, prometheus.Labels{"trace_id": id})
		return
	}
	l.Observe(v)
}

// sampledTrace returns the trace ID of the event's header traceparent (https://www.w3.org/TR/trace-context/), or "" if it
// has none that was sampled: a trace that is not stored cannot be looked at.
func sampledTrace(m *cdc.Message) string {
	const sampled = 1
	parts := strings.Split(string(header(m, "traceparent")), "-")
	if len(parts) < 4 || len(parts[1]) != 32 || len(parts[3]) != 2 || strings.Trim(parts[1], "0123456789abcdef") != "" {
		return ""
	}
	if strings.Trim(parts[1], "0") == "" || strings.IndexByte("0123456789abcdef", parts[3][1])&sampled == 0 {
		return ""
	}
	return parts[1]
}

func header(m *cdc.Message, name string) []byte {
	for i := range m.Headers {
		if string(m.Headers[i].Key) == name {
			return m.Headers[i].Value
		}
	}
	return nil
}

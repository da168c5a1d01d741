package publisher

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// refusal is why a record cannot be published.
type refusal struct {
	reason string // snake_case: too_large, rejected, ...
	policy cdc.Policy
	err    error
}

// failure is what stops the run.
type failure struct {
	seq   uint64
	err   error
	until time.Time // when it is reported although earlier messages are not settled
	told  bool
}

// settleGrace is how long messages before the one that stops the run may still take: a new run begins at
// the first that is not settled.
const settleGrace = 5 * time.Second

// unsendable reports whether e is refused, or would be.
func (l *loop) unsendable(p *partition, e *entry) bool {
	return e.poison || l.tooLarge(p, e)
}

// tooLarge: with compression only the broker can tell.
func (l *loop) tooLarge(p *partition, e *entry) bool {
	return l.codec == 0 && e.size()+batchOverhead > p.topic.limit || e.size() > hardLimit
}

// hardLimit is below sarama.MaxRequestSize and the brokers' socket.request.max.bytes, which end the
// connection: no limit of a topic can be above them.
const hardLimit = 99 << 20

// discard applies the policy to unsendable messages at the front of p's queue.
func (l *loop) discard(p *partition) {
	for p.queue.len() > 0 && p.state != halted {
		e := p.queue.at(0)
		if e.t.seq >= l.horizon || !l.unsendable(p, e) {
			return
		}
		why := p.blame
		if !e.poison {
			why = l.tooLargeRefusal(p, e)
		}
		l.metrics.errors.WithLabelValues(p.topic.name, why.reason).Inc()
		if why.policy == cdc.PolicyStop {
			p.state = halted
			l.fail(e.t.seq, refusedError(p, e, why))
			return
		}
		l.drop(p.topic, e, why.reason, why.err)
		l.buffered -= e.weight()
		p.queue.pop()
		l.left(p.topic, 1)
	}
}

func (l *loop) tooLargeRefusal(p *partition, e *entry) refusal {
	return refusal{"too_large", l.opts.TooLarge, fmt.Errorf(
		"the record takes %d bytes and the topic allows %d (max.message.bytes)", e.size()+batchOverhead, p.topic.limit)}
}

// drop settles a message without publishing it.
func (l *loop) drop(tp *topic, e *entry, reason string, err error) {
	l.metrics.dropped.WithLabelValues(reason).Inc()
	l.log.Warn("event dropped by policy", slog.String("topic", tp.name), slog.String("event_id", e.m.EventID()),
		slog.String("reason", reason), slog.Any("error", err))
	l.settle(e.t, 1)
}

func refusedError(p *partition, e *entry, why refusal) error {
	fix := "correct the event or list it under errors.skip, or set errors.rejected: drop"
	if why.reason == "too_large" {
		fix = "raise the topic's max.message.bytes, list the event under errors.skip, or set errors.too_large: drop"
	}
	return cdc.Stop(cdc.ClassRuntime, why.reason, fmt.Errorf("publish event %q to topic %q partition %d: %w",
		e.m.EventID(), p.topic.name, p.id, why.err), fix)
}

const clockReason = "clock"

// clockError: every attempt carries its own time, so an event cannot be the reason.
func clockError(topic string, sent time.Time, cause error) error {
	return cdc.Stop(cdc.ClassRuntime, clockReason, fmt.Errorf("publish to topic %q: the broker refuses %s, the time of this machine: %w",
		topic, sent.UTC().Format(time.RFC3339), cause),
		"set the clocks of this machine and of the brokers, or raise the topic's message.timestamp.before.max.ms and message.timestamp.after.max.ms")
}

func createError(topic string, cause error) error {
	return cdc.Stop(cdc.ClassConfig, "topic_create", fmt.Errorf("create topic %q: %w", topic, cause),
		"correct topics.create (replication_factor must not be over the number of brokers), grant CREATE, or create it yourself")
}

// fail stops the run at the batch seq: of it and of what follows nothing more is sent, what came before
// is still settled, and then the relay is told.
func (l *loop) fail(seq uint64, err error) {
	if l.failure != nil && l.failure.seq <= seq {
		return
	}
	until := l.now.Add(settleGrace)
	if l.failure != nil {
		until = l.failure.until
	} else {
		l.log.Error("publishing stops", slog.Any("error", err))
	}
	l.failure = &failure{seq: seq, err: err, until: until}
	l.horizon = seq
	l.wakeAt(until)
}

// confess reports the failure once everything before it is settled, or has had its time.
func (l *loop) confess() {
	f := l.failure
	if f == nil || f.told {
		return
	}
	if oldest, found := l.window.oldest(); found && oldest < f.seq && l.now.Before(f.until) {
		return
	}
	f.told, l.horizon = true, 0
	l.window.answers.push(cdc.Durable{First: f.seq, Last: f.seq, Err: f.err})
}

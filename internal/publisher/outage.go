package publisher

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// trouble is an error that lasts. The zero value is none.
type trouble struct {
	since time.Time
	err   error
}

// met notes an error, which began at since unless it lasts already.
func (l *loop) met(t *trouble, since time.Time, err error) {
	if t.since.IsZero() {
		t.since = since
	}
	t.err, l.unreported = err, true
}

// passed notes that t has ended.
func (l *loop) passed(t *trouble) {
	if !t.since.IsZero() {
		*t, l.unreported = trouble{}, true
	}
}

const (
	// reportInterval is the least time between two reports of problems: each looks at every partition.
	reportInterval = 500 * time.Millisecond
	// problemReporter reports the loop's problems.
	problemReporter = "publisher"
	// maxProblems is how many problems are reported: a row may name any topic.
	maxProblems = 100
)

// reportProblems reports what lasts, if that has changed.
func (l *loop) reportProblems() {
	if !l.unreported {
		return
	}
	if due := l.reportedAt.Add(reportInterval); l.now.Before(due) {
		l.wakeAt(due)
		return
	}
	found := l.problems()
	l.unreported, l.reportedAt = false, l.now
	l.opts.Problems.Report(problemReporter, found...)
	if len(found) > 0 { // leaders move, and queues empty
		l.unreported = true
		l.wakeAt(l.now.Add(reportInterval))
	}
}

// problems are those with each broker that leads a partition, with other requests to the cluster, and with each topic.
func (l *loop) problems() []cdc.Problem {
	var all []cdc.Problem
	add := func(server string, t trouble) {
		if !t.since.IsZero() {
			all = append(all, cdc.Problem{With: cdc.OnKafka, Server: server, Since: t.since, Err: t.err})
		}
	}
	for _, b := range l.brokers {
		if !b.trouble.since.IsZero() && l.leads(b) {
			add(b.addr, b.trouble)
		}
	}
	if _, answered := errors.AsType[sarama.KError](l.coordinator.trouble.err); answered || len(all) == 0 {
		add("", l.coordinator.trouble)
	}
	if len(all) == 0 {
		add("", l.jobs.trouble)
	}
	for _, name := range slices.Sorted(maps.Keys(l.topics)) {
		if len(all) < maxProblems {
			add("", l.topics[name].trouble())
		}
	}
	return all
}

// trouble is that of the partition that fails for longest, with the number of others.
func (tp *topic) trouble() trouble {
	var oldest *partition
	failing := 0
	for _, p := range tp.partitions {
		if p.failing.since.IsZero() || p.queue.len() == 0 {
			continue
		}
		failing++
		if oldest == nil || p.failing.since.Before(oldest.failing.since) {
			oldest = p
		}
	}
	switch {
	case failing == 0 && tp.unplaced.len() > 0 && !tp.failing.since.IsZero():
		return trouble{tp.failing.since, fmt.Errorf("publish to topic %q: %w", tp.name, tp.failing.err)}
	case failing == 0:
		return trouble{}
	case failing == 1:
		return trouble{oldest.failing.since, fmt.Errorf("publish to topic %q partition %d: %w", tp.name, oldest.id, oldest.failing.err)}
	}
	return trouble{oldest.failing.since, fmt.Errorf("publish to topic %q partition %d and %d others: %w", tp.name, oldest.id, failing-1, oldest.failing.err)}
}

// leads reports whether b leads a partition.
func (l *loop) leads(b *brokerState) bool {
	return len(l.topicsOf(b)) > 0
}

func (l *loop) topicsOf(b *brokerState) (led []*topic) {
	for _, tp := range l.topics {
		if slices.ContainsFunc(tp.partitions, func(p *partition) bool { return p.leader == b }) {
			led = append(led, tp)
		}
	}
	return led
}

// lostError is an error of a connection that had worked.
func lostError(addr string, err error) error {
	if isTimeout(err) {
		return fmt.Errorf("Kafka at %s does not answer: %w", addr, err) //nolint:staticcheck // a name
	}
	return fmt.Errorf("connection to Kafka at %s was lost: %w", addr, err)
}

// isTimeout reports whether err is that of a request without a response in time.
func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// logFailure is about a broker that could not be reached, or answered with an error.
func (l *loop) logFailure(addr string, err error) {
	l.log.Debug("kafka request failed", cdc.Repeats(), slog.String("broker", addr), slog.Any("error", err))
}

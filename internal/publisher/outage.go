package publisher

import (
	"log/slog"
	"time"
)

const (
	// outageAfter is how long nobody may answer before it is called an outage.
	outageAfter = time.Second
	// sayEvery limits lines about trouble that goes on.
	sayEvery = 10 * time.Second
)

// outage is a time in which no broker answers.
type outage struct {
	since time.Time // of the first failure since the last answer; zero: none
	said  time.Time // when it was last logged; zero: not yet
}

// trouble notes that a broker could not be reached.
func (l *loop) trouble(addr string, err error) {
	o := &l.outage
	if o.since.IsZero() {
		o.since = l.now
		l.log.Debug("kafka connection lost", slog.String("broker", addr), slog.Any("error", err))
	}
	if l.now.Sub(o.since) < outageAfter || l.now.Sub(o.said) < sayEvery {
		return
	}
	o.said = l.now
	l.metrics.unavailable.Set(float64(o.since.UnixMilli()) / 1e3)
	l.log.Warn("kafka does not answer, trying on", slog.Time("since", o.since), slog.Any("error", err))
}

// reachable notes that a broker has answered.
func (l *loop) reachable() {
	o := &l.outage
	if o.since.IsZero() {
		return
	}
	if !o.said.IsZero() {
		l.metrics.unavailable.Set(0)
		l.log.Info("kafka answers again", slog.Duration("after", l.now.Sub(o.since)))
	}
	*o = outage{}
}

// grumble logs trouble with a partition that is tried on.
func (l *loop) grumble(p *partition, cause error) {
	if l.now.Sub(p.topic.told) < sayEvery {
		return
	}
	p.topic.told = l.now
	l.log.Warn("publishing is delayed, trying on", slog.String("topic", p.topic.name), slog.Int("partition", int(p.id)),
		slog.Time("since", p.failing), slog.Any("error", cause))
}

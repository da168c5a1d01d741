package publisher

import (
	"errors"
	"log/slog"
	"time"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// outageAfter is how long no request may succeed before that is logged.
const outageAfter = time.Second

// outage is a time in which no request to the cluster succeeds.
type outage struct {
	since  time.Time // of the first failure since the last success; zero: none
	silent time.Time // of the first failure without an answer since the last answer; zero: the last one was an answer
	logged bool
}

// noteFailure notes that a broker could not be reached, or answered with an error.
func (l *loop) noteFailure(addr string, err error) {
	o := &l.outage
	if o.since.IsZero() {
		o.since = l.now
		l.log.Debug("kafka request failed", slog.String("broker", addr), slog.Any("error", err))
	}
	_, answered := errors.AsType[sarama.KError](err)
	o.noteSilence(l, answered)
	if l.now.Sub(o.since) < outageAfter {
		return
	}
	o.logged = true
	if answered {
		l.log.Warn("kafka answers with an error, retrying", cdc.Repeats(), slog.Time("since", o.since), slog.Any("error", err))
	} else {
		l.log.Warn("kafka does not answer, retrying", cdc.Repeats(), slog.Time("since", o.since), slog.Any("error", err))
	}
}

func (o *outage) noteSilence(l *loop, answered bool) {
	switch {
	case answered:
		o.silent = time.Time{}
		l.metrics.unavailable.Set(0)
	case o.silent.IsZero():
		o.silent = l.now
	case l.now.Sub(o.silent) >= outageAfter:
		l.metrics.unavailable.Set(float64(o.silent.UnixMilli()) / 1e3)
	}
}

// noteSuccess notes that a broker has answered, and not with an error of the whole request.
func (l *loop) noteSuccess() {
	o := &l.outage
	if o.since.IsZero() {
		return
	}
	l.metrics.unavailable.Set(0)
	if o.logged {
		l.log.Info("kafka works again", slog.Duration("after", l.now.Sub(o.since)))
	}
	*o = outage{}
}

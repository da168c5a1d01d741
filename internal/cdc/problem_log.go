package cdc

import (
	"errors"
	"log/slog"
	"time"
)

// LogAgain returns how long after its beginning what lasts is logged for the n-th time.
func LogAgain(n int) time.Duration {
	times := [...]time.Duration{time.Second, 10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute}
	last := len(times) - 1
	return times[min(n, last)] * time.Duration(1+max(0, n-last))
}

// maxCauses is how many causes of one outage are logged when they begin; of others the times of [LogAgain] tell.
const maxCauses = 3

// lasting is a dependency with a problem.
type lasting struct {
	problem Problem // the oldest one
	since   time.Time
	logged  int // at how many of its times
	causes  map[string]bool
	timer   *time.Timer
}

// NewProblems returns Problems that are logged: a cause when it has lasted for a second or changes, at the times of [LogAgain], and when no
// problem with its server is left.
func NewProblems(log *slog.Logger) *Problems {
	return &Problems{log: log, lasting: map[Dependency]*lasting{}}
}

// follow logs what has changed.
func (p *Problems) follow() {
	if p.log == nil {
		return
	}
	now := map[Dependency]bool{}
	for _, found := range p.list() { // the oldest first
		if !now[found.With] {
			now[found.With] = true
			p.lasts(found)
		}
		if l, cause := p.lasting[found.With], root(found.Err); l.logged > 0 && !l.causes[cause] && len(l.causes) < maxCauses {
			p.write(l, found.Err)
		}
	}
	for with, l := range p.lasting {
		if now[with] {
			continue
		}
		l.timer.Stop()
		delete(p.lasting, with)
		if l.logged > 0 {
			_, over := words(with)
			p.log.Info(over, slog.Duration("after", time.Since(l.since).Round(time.Millisecond))) //nolint:sloglint // of words
		}
	}
}

// lasts takes the oldest problem with a dependency.
func (p *Problems) lasts(found Problem) {
	l := p.lasting[found.With]
	if l == nil {
		l = &lasting{since: found.Since, causes: map[string]bool{}}
		l.timer = time.AfterFunc(LogAgain(0)-time.Since(found.Since), func() { p.logAgain(l) })
		p.lasting[found.With] = l
	}
	l.problem = found
}

func (p *Problems) logAgain(l *lasting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lasting[l.problem.With] != l {
		return
	}
	for LogAgain(l.logged) <= time.Since(l.since) {
		l.logged++
	}
	p.write(l, l.problem.Err)
	l.timer.Reset(LogAgain(l.logged) - time.Since(l.since))
}

func (p *Problems) write(l *lasting, err error) {
	l.causes[root(err)] = true
	text, _ := words(l.problem.With)
	p.log.Warn(text, slog.Time("since", l.since), slog.Any("error", err)) //nolint:sloglint // of words
}

// words are what the log says while problems last, and once they are over.
func words(with Dependency) (lasts, over string) {
	switch with {
	case OnKafka:
		return "cannot publish, retrying", "Kafka works again"
	case OnCheckpoint:
		return "position not saved, retrying", "position saved again"
	case OnRows:
		return "published rows left as they are, retrying", "published rows are marked again"
	case OnDatabase:
	}
	return "cannot read from the database, retrying", "database works again"
}

// root is the innermost text of an error: what is around it has addresses and ports, which change.
func root(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}

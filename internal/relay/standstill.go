package relay

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// standstillAfter is how many times in a row the stream ends with the same error and without progress until that is a problem: the server
// fails at the same transaction each time. That it accepts the next start does not end the problem.
const standstillAfter = 3

// standstill counts the failures of the stream since the last progress.
type standstill struct {
	mu    sync.Mutex
	since time.Time // the source has been read since then; zero: it is not read
	said  string
	last  uint64 // the window's last batch
	times int
	// located says that the error names what the source cannot get past: then it is no progress if the stream lasts longer than RetryMax.
	located bool
}

// noteReading notes that the source is read from now on.
func (a *attempt) noteReading() {
	a.standstill.mu.Lock()
	a.standstill.since = time.Now()
	a.standstill.mu.Unlock()
	a.noteProgress()
}

// noteProgress ends the problem of the stream, while the source is read, unless the stream stands still.
func (a *attempt) noteProgress() {
	s := &a.standstill
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		return
	}
	if a.window.last() != s.last || time.Since(s.since) > a.opts.RetryMax && !s.located {
		s.times = 0
	}
	if s.times < standstillAfter && a.health.connected(true) {
		a.opts.Problems.Report(streamReporter)
	}
}

// noteFailure notes that the source is not read any more, and returns how long it was.
func (a *attempt) noteFailure(err error) time.Duration {
	s := &a.standstill
	s.mu.Lock()
	defer s.mu.Unlock()
	lasted := time.Since(s.since)
	s.since = time.Time{}
	a.health.connected(false)
	if err == nil || errors.Is(err, cdc.ErrHungUp) {
		return lasted
	}
	last, said, located := a.window.last(), err.Error(), cdc.Fix(err) != ""
	if u, ok := errors.AsType[*cdc.UnsentError](err); ok { // what the server says within a transaction may differ each time
		said, located = u.Where, true
	}
	if said != s.said || last != s.last || lasted > a.opts.RetryMax && !located {
		s.times = 0
	}
	s.said, s.last, s.located = said, last, located
	s.times++
	return lasted
}

// withStandstill adds to an error of a stream that stands still where it does.
func (a *attempt) withStandstill(err error) error {
	a.standstill.mu.Lock()
	times := a.standstill.times
	a.standstill.mu.Unlock()
	if times < standstillAfter {
		return err
	}
	if u, ok := errors.AsType[*cdc.UnsentError](err); ok {
		err = cdc.Fixable(u.Past, "%w", err)
	}
	return fmt.Errorf("no progress after the position %s: %w", a.opts.Display(a.checkpointOrNone().Progress.Position), err)
}

package kgoinbox

import (
	"log/slog"
	"slices"
	"sync"
	"time"
)

// trouble names a failure that may last. Failures with equal names are one.
type trouble struct{ what, topic, code string }

const (
	databaseFails = "database fails, all messages wait"
	noBroker      = "no Kafka broker answers"
	fetchFails    = "fetch"
	lookFails     = "look for parked messages"
	observerFails = "observer panicked"
	purgeFails    = "purge the inbox"
)

// reminder is the time between two lines of one failure.
const reminder = time.Minute

// troubles logs failures that last: when they begin, each minute, and when they end. One that comes back within the minute is
// not logged again, so a failure that comes and goes is no flood either.
type troubles struct {
	log *slog.Logger

	mu  sync.Mutex
	all map[trouble]*failure
}

type failure struct {
	since, last, logged time.Time // since is zero when it has ended
	known               bool      // logged since then
	args                []any
}

func newTroubles(log *slog.Logger) *troubles {
	return &troubles{log: log, all: map[trouble]*failure{}}
}

// fails notes a failure and returns for how long it has lasted.
func (t *troubles) fails(of trouble, err error, args ...any) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	f, now := t.all[of], time.Now()
	if f == nil {
		f = new(failure)
		t.all[of] = f
	}
	if f.since.IsZero() {
		f.since, f.known = now, false
	}
	f.last = now
	lasted := now.Sub(f.since)
	if now.Sub(f.logged) >= reminder {
		f.logged, f.known, f.args = now, true, args
		t.log.Error(of.what, append(slices.Clone(args), "for", lasted, "error", err)...) //nolint:sloglint // a constant
	}
	return lasted
}

// ends notes that a failure has ended.
func (t *troubles) ends(of trouble) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.all[of]; f != nil {
		t.end(of, f)
	}
}

// sweep ends failures of this kind that were not seen for so long.
func (t *troubles) sweep(what string, unseen time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for of, f := range t.all {
		if of.what == what && time.Since(f.last) >= unseen {
			t.end(of, f)
		}
	}
}

// end is called with t.mu.
func (t *troubles) end(of trouble, f *failure) {
	if !f.since.IsZero() && f.known {
		t.log.Info("recovered: "+of.what, append(f.args, "after", f.last.Sub(f.since))...) //nolint:sloglint // a constant
	}
	f.since = time.Time{}
}

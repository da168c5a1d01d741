package kgoinbox

import (
	"errors"
	"sync"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/parking"
)

// gate lets one worker of a consumer try while the database fails, after a pause that doubles. All others wait.
type gate struct {
	pause func(n int) time.Duration

	mu      sync.Mutex
	failed  int // tries in a row; 0 while the database works
	opened  int // how often it was closed and opened
	writes  bool
	trying  bool
	next    time.Time     // of the next try
	changed chan struct{} // closed, and replaced, when a try has ended
}

func newGate(pause func(n int) time.Duration) *gate {
	return &gate{pause: pause, changed: make(chan struct{})}
}

// enter waits until the database works, or the caller is the one to try. Call leave after the work. It reports false if stop
// was closed first.
func (g *gate) enter(stop <-chan struct{}) (leave func(), ok bool) {
	for {
		g.mu.Lock()
		pause, changed := time.Until(g.next), g.changed
		switch {
		case g.failed == 0:
			g.mu.Unlock()
			return func() {}, true
		case g.trying:
			pause = reminder // changed comes first
		case pause <= 0:
			g.trying = true
			opened := g.opened
			g.mu.Unlock()
			return func() { g.leave(opened) }, true
		}
		g.mu.Unlock()
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-changed:
		case <-stop:
			timer.Stop()
			return nil, false
		}
		timer.Stop()
	}
}

// leave ends a try that began when the gate had been opened so many times. If it was opened since, that has ended the try.
func (g *gate) leave(opened int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trying = g.trying && g.opened != opened
	g.wake()
}

// wake is called with g.mu.
func (g *gate) wake() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// close closes the gate after a failure. What began before the first one may fail after it, and is no try.
func (g *gate) close(write bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed == 0 || g.trying {
		g.failed++
		g.next = time.Now().Add(g.pause(g.failed))
	}
	g.writes = g.writes || write
}

// open opens the gate after a success, and reports whether it was closed. A server that takes no writes still answers reads. The
// try has ended with it: its handler may hang, and the next outage needs another one.
func (g *gate) open(write bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed == 0 || (g.writes && !write) {
		return false
	}
	g.failed, g.writes, g.trying = 0, false, false
	g.opened++
	g.wake()
	return true
}

// times returns how often the gate was opened.
func (g *gate) times() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened
}

// failed notes a failure of the database.
func (r *run[Tx]) failed(err error, write bool) {
	r.gate.close(write)
	r.troubles.fails(trouble{what: databaseFails}, err)
}

// works notes that the database did something.
func (r *run[Tx]) works(write bool) {
	if r.gate.open(write) {
		r.troubles.ends(trouble{what: databaseFails})
	}
}

// outage returns the pause of a message after the database failed in its handler. It may be the message's own fault: its next attempt
// would open the gate, and close it for all others again.
func (p *partition[Tx]) outage(key parking.Key, err error, called bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !called || !errors.Is(err, inbox.ErrDatabase) {
		delete(p.outages, key)
		return 0
	}
	p.outages[key]++
	return p.config.pause(p.outages[key])
}

package relay

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// State is what a relay is doing.
type State string

// The states.
const (
	StateStarting State = "starting"
	StateStandby  State = "standby"
	StateLeading  State = "leading"
	StateStopping State = "stopping"
	StateStopped  State = "stopped"
	StateParked   State = "parked"
)

// Status is the relay's state, for display.
type Status struct {
	State     State
	Since     time.Time
	Connected bool // the WAL or binlog is being read
	Stalled   bool
	// Source is the WAL or binlog that is read, From where this run started.
	Source cdc.Source
	From   cdc.Position
	// Acked is the position up to which Kafka has acknowledged everything.
	Acked cdc.Position
	// Checkpoint is the last one saved.
	Checkpoint     cdc.Checkpoint
	InFlightEvents int
	InFlightBytes  int
	// Lag is the largest of: the age of the oldest event that Kafka has not acknowledged, the time since the database
	// was lost, and how far behind a [Lagging] source reads. It is 0 when everything is published.
	Lag       time.Duration
	LastError error
	LastErrAt time.Time
}

type health struct {
	mu        sync.Mutex
	status    Status
	connAt    time.Time // since when Connected holds its value
	connKnown bool
}

// set changes the state and reports whether it was a different one. A nil err keeps the last error.
func (h *health) set(s State, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := h.status.State != s
	if changed {
		h.status.State, h.status.Since = s, time.Now()
	}
	if err != nil {
		h.status.LastError, h.status.LastErrAt = err, time.Now()
	}
	return changed
}

func (h *health) failed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status.LastError, h.status.LastErrAt = err, time.Now()
}

func (h *health) origin(from cdc.Position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status.From = from
}

func (h *health) connected(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status.Connected, h.connAt, h.connKnown = on, time.Now(), true
}

func (h *health) stall(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status.Stalled = on
}

// Status returns the state as of now.
func (r *Relay) Status() Status {
	w := r.window.state()
	r.health.mu.Lock()
	st, connAt, known := r.health.status, r.health.connAt, r.health.connKnown
	r.health.mu.Unlock()
	if id := r.source.Load(); id != nil {
		st.Source = *id
	}
	if c := r.checkpoint.Load(); c != nil {
		st.Checkpoint = *c
	}
	if st.Acked = st.Checkpoint.Progress.Position; !r.exactlyOnce() { // for which nothing else may ask for progress
		st.Acked = r.Source.Progress(w.acked).Position
	}
	st.InFlightEvents, st.InFlightBytes = w.events, w.bytes
	if !w.oldestCommit.IsZero() {
		st.Lag = time.Since(w.oldestCommit)
	}
	if source, ok := r.Source.(Lagging); ok {
		st.Lag = max(st.Lag, source.Lag())
	}
	if known && !st.Connected {
		st.Lag = max(st.Lag, time.Since(connAt))
	}
	return st
}

// Ready returns nil if the relay stands by, or leads and makes progress; otherwise the reason.
func (r *Relay) Ready() error {
	st := r.Status()
	switch {
	case st.State == StateStandby:
		return nil
	case st.State != StateLeading:
		return errors.Join(errors.New("relay is "+string(st.State)), st.LastError)
	case !st.Connected:
		return errors.Join(errors.New("WAL or binlog is not being read"), st.LastError)
	case st.Stalled:
		return errors.Join(errors.New("events in flight are not acknowledged by Kafka"), st.LastError)
	}
	return nil
}

// stallAfter is how long a batch may stay in flight before the relay reports itself stalled.
const stallAfter = time.Minute

// watch reports a stalled pipeline: batches are in flight and the oldest is not acknowledged.
func (r *Relay) watch(ctx context.Context) {
	var warned time.Time
	for sleep(ctx, time.Second) == nil {
		st := r.window.state()
		age := time.Since(st.oldestOffered)
		stalled := !st.oldestOffered.IsZero() && age > stallAfter
		r.health.stall(stalled)
		if stalled && time.Since(warned) > time.Minute {
			warned = time.Now()
			r.log.Error("stalled: Kafka does not acknowledge; check that it is reachable and has enough in-sync replicas",
				"oldest_in_flight", age.Round(time.Second).String(), "in_flight_events", st.events)
		}
	}
}

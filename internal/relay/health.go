package relay

import (
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

// Status is the relay's state for people.
type Status struct {
	State     State
	Since     time.Time
	Connected bool // to the database's log
	Stalled   bool
	// Source is the log that is read, From where this run started.
	Source cdc.Source
	From   cdc.Position
	// Acked is the position up to which everything is durable downstream.
	Acked cdc.Position
	// Checkpoint is the last one saved.
	Checkpoint     cdc.Checkpoint
	InFlightEvents int
	InFlightBytes  int
	// Lag is the age of the oldest event that is not durable downstream, or, while the database is away,
	// of the last contact with it, or how far behind a [Lagging] source reads; 0 when everything is published.
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

// set changes the state and reports whether it was another before. A nil err keeps the last error.
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

func (h *health) origin(id cdc.Source, from cdc.Position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status.Source, h.status.From = id, from
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
	if c := r.checkpoint.Load(); c != nil {
		st.Checkpoint = *c
	}
	st.Acked = r.Source.Progress(w.acked).Position
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

// Ready returns nil when the relay leads and moves, or stands by; otherwise the reason.
func (r *Relay) Ready() error {
	st := r.Status()
	switch {
	case st.State == StateStandby:
		return nil
	case st.State != StateLeading:
		return errors.Join(errors.New("relay is "+string(st.State)), st.LastError)
	case !st.Connected:
		return errors.Join(errors.New("database's log is not being read"), st.LastError)
	case st.Stalled:
		return errors.Join(errors.New("nothing was acknowledged by Kafka for a while"), st.LastError)
	}
	return nil
}

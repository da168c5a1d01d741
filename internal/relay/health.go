package relay

import (
	"context"
	"errors"
	"slices"
	"strings"
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
	// ConnectedSince is since when Connected has its value; zero: it was never read.
	ConnectedSince time.Time
	Stalled        bool
	// Source is the WAL or binlog that is read.
	Source cdc.Source
	// Acked is the position up to which Kafka has acknowledged everything.
	Acked cdc.Position
	// Checkpoint is the last one saved.
	Checkpoint     cdc.Checkpoint
	InFlightEvents int
	InFlightBytes  int
	// Unanswered is since when the oldest event that Kafka has not acknowledged waits for that; zero: there is none.
	Unanswered time.Time
	// Lag is the largest of: the age of the oldest event that Kafka has not acknowledged, the time since the database
	// was lost, and how far behind a [Lagging] source reads. It is 0 when everything is published.
	Lag time.Duration
	// Problems are those at present, the oldest first.
	Problems []cdc.Problem
	// Leader says which process leads while this relay stands by, as the database or the store names it.
	Leader string
	// Cause is why the relay starts again or has stopped; nil otherwise.
	Cause error
	// LastError is the last one that was met. LastPast says that its cause has passed.
	LastError error
	LastErrAt time.Time
	LastPast  bool
}

type health struct {
	mu     sync.Mutex
	status Status
}

func (h *health) update(change func(*Status)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.status)
}

// set changes the state and reports whether it was a different one. err is its cause, and may be nil.
func (h *health) set(s State, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := h.status.State != s
	if changed {
		h.status.State, h.status.Since = s, time.Now()
	}
	h.status.Leader = ""
	if h.status.Cause = err; err != nil {
		h.status.LastError, h.status.LastErrAt = err, time.Now()
	}
	return changed
}

// standBy is set for a relay that stands by, for the reason err, which wraps [cdc.ErrStandby].
func (h *health) standBy(err error) bool {
	changed := h.set(StateStandby, nil)
	_, leader, _ := strings.Cut(err.Error(), cdc.ErrStandby.Error()+": ")
	h.update(func(s *Status) { s.Leader = leader })
	return changed
}

func (h *health) failed(err error) {
	h.update(func(s *Status) { s.LastError, s.LastErrAt = err, time.Now() })
}

// connected notes whether the source is being read, and reports whether that is new.
func (h *health) connected(on bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.status.ConnectedSince.IsZero() && h.status.Connected == on {
		return false
	}
	h.status.Connected, h.status.ConnectedSince = on, time.Now()
	return true
}

func (h *health) stall(on bool) (began bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	began = on && !h.status.Stalled
	h.status.Stalled = on
	return began
}

// Status returns the state as of now.
func (r *Relay) Status() Status {
	a := r.current.Load()
	w := a.window.state()
	r.health.mu.Lock()
	st := r.health.status
	r.health.mu.Unlock()
	if id := r.sourceID.Load(); id != nil {
		st.Source = *id
	}
	if c := r.checkpoint.Load(); c != nil {
		st.Checkpoint = *c
	}
	st.Acked = a.keeper.acked(w.acked)
	st.InFlightEvents, st.InFlightBytes = w.events, w.bytes
	if !w.oldestCommit.IsZero() {
		st.Unanswered = w.oldestOffered
		st.Lag = max(time.Since(w.oldestCommit), time.Since(w.oldestOffered)) // the database's clock may be ahead
	}
	if source, ok := r.Source.(Lagging); ok && st.State != StateStandby {
		st.Lag = max(st.Lag, source.Lag())
	}
	if !st.Connected && !st.ConnectedSince.IsZero() && st.State != StateStandby { // what another relay publishes is not late
		st.Lag = max(st.Lag, time.Since(st.ConnectedSince))
	}
	st.Problems = r.opts.Problems.List()
	if st.LastPast = st.Cause == nil; st.LastPast && len(st.Problems) > 0 {
		st.LastError, st.LastErrAt, st.LastPast = st.Problems[0].Err, st.Problems[0].Since, false
	}
	return st
}

// unreadyAfter is how long the database or Kafka may be away before a leader is not ready: what a restart of one broker takes
// is no reason.
const unreadyAfter = 5 * time.Second

// Ready returns nil if the relay stands by, or leads and can do its work; otherwise the reason, with the problems at present.
// A checkpoint store that is away is no reason: publishing goes on.
func (r *Relay) Ready() error {
	st := r.Status()
	reasons := []error{nil}
	lasting := false
	for i := range st.Problems {
		p := &st.Problems[i]
		lasting = lasting || (p.With == cdc.OnDatabase || p.With == cdc.OnKafka) && time.Since(p.Since) >= unreadyAfter
		reasons = append(reasons, p)
	}
	switch {
	case st.State == StateStandby:
		return nil
	case st.State != StateLeading && st.Cause != nil && len(st.Problems) == 0:
		reasons = append(reasons, st.Cause)
		fallthrough
	case st.State != StateLeading:
		reasons[0] = errors.New("relay is " + string(st.State))
	case !st.Connected:
		reasons[0] = errors.New("WAL or binlog is not being read")
	case st.Stalled:
		reasons[0] = errors.New("events in flight are not acknowledged by Kafka")
	case lasting:
		reasons[0] = errors.New("database or Kafka has had a problem for more than 5s")
	default:
		return nil
	}
	return errors.Join(reasons...)
}

// startReporter reports problems of a start, streamReporter of the stream, and saveReporter of saves.
const (
	startReporter  = "start"
	streamReporter = "stream"
	saveReporter   = "save"
)

// stallAfter is how long a batch may stay in flight before the relay reports itself stalled.
const stallAfter = time.Minute

// watch reports a stalled pipeline: batches are in flight and the oldest is not acknowledged. It also notices the end of a standstill.
func (a *attempt) watch(ctx context.Context) {
	for cdc.Sleep(ctx, time.Second) == nil {
		a.noteProgress()
		st := a.window.state()
		age := time.Since(st.oldestOffered)
		stalled := !st.oldestOffered.IsZero() && age > stallAfter
		switch _, full := a.stuck(); {
		case !a.health.stall(stalled) || slices.ContainsFunc(a.opts.Problems.List(), func(p cdc.Problem) bool { return p.With == cdc.OnKafka }):
		case full:
			a.log.Error("stalled: there may be no more dead letters; see `cdc-relay dlq list`, then retry or drop letters, or raise dead_letter.max_held_events")
		default:
			a.log.Error("stalled: Kafka does not acknowledge; check that it is reachable and has enough in-sync replicas",
				"oldest_in_flight", age.Round(time.Second).String(), "in_flight_events", st.events)
		}
	}
}

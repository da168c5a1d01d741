package wal

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

const (
	// lookInterval is how often the publication and the slot are looked at.
	lookInterval = time.Second
	// monitorTimeout bounds one query of the monitor.
	monitorTimeout = 5 * time.Second
)

// monitor watches the publication and the slot from an ordinary connection, once in a while. Nothing is
// confirmed past what was received before the last good look. Its connection also hears of a shutdown
// first: the server ends ordinary sessions before it waits for walsenders.
type monitor struct {
	ss   *session
	good atomic.Uint64 // seq handed on before the last good look began
	look atomic.Pointer[cdc.SlotStatus]
	// failed takes the one error that ends the attempt.
	failed chan error
	cancel context.CancelFunc
	done   chan struct{}
	// failing is since when looks fail; zero: they do not.
	failing time.Time
	// ended waits for another look that finds the publication unchanged: what a table misses while it is out of the publication must not
	// be below the horizon.
	ended postgres.Horizon
}

// startMonitor takes over the session's ordinary connection until stop returns, also when ctx ends before.
func startMonitor(ctx context.Context, ss *session) *monitor {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	m := &monitor{ss: ss, failed: make(chan error, 1), cancel: cancel, done: make(chan struct{})}
	go m.run(ctx)
	return m
}

// stop ends the looks and waits for the one under way. Afterwards the connection is the caller's.
func (m *monitor) stop() {
	m.cancel()
	<-m.done
}

func (m *monitor) run(ctx context.Context) {
	defer close(m.done)
	defer m.report(time.Time{}, nil) // the end of the stream is a problem of its own
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		began := time.Now()
		err := m.once(ctx, m.ss.src.handed.Load())
		if ctx.Err() == nil {
			m.report(began, err)
		}
		if m.final(ctx, err) {
			m.failed <- err
			return
		}
	}
}

// report says what is wrong with the server, and since when: the end of a stream that is silent is noticed late.
func (m *monitor) report(began time.Time, err error) {
	s := m.ss.src
	if err == nil {
		m.failing = time.Time{}
		s.opts.Problems.Report("monitor")
		return
	}
	if m.failing.IsZero() {
		m.failing = began
	}
	s.opts.Problems.Report("monitor", cdc.Problem{With: cdc.OnDatabase, Since: m.failing, Err: err})
}

// final says whether err ends the attempt. A lost connection does not: it is made again at the next
// look, and until then nothing is confirmed.
func (m *monitor) final(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil {
		return false
	}
	if errors.Is(err, postgres.ErrStopping) || errors.Is(err, errPromoted) || errors.Is(err, postgres.ErrSynchronous) || cdc.ClassOf(err) == cdc.ClassPosition {
		return true
	}
	m.ss.src.log.Warn("publication cannot be read: nothing is confirmed to PostgreSQL until it can", cdc.Repeats(), slog.Any("error", err))
	return false
}

// once looks at the publication and the slot; seen is what was handed on before.
func (m *monitor) once(ctx context.Context, seen uint64) error {
	ctx, cancel := context.WithTimeout(ctx, monitorTimeout)
	defer cancel()
	s := m.ss.src
	if err := m.ss.reconnect(ctx); err != nil {
		return err
	}
	conn := m.ss.sql
	st, err := postgres.ReadPublication(ctx, conn, s.opts.Options, m.ss.version)
	if err != nil {
		return postgres.QueryError(conn, err)
	}
	if s.baseline.Changed(st.Fingerprint, s.opts.tracked) {
		return m.ss.publicationChanged(ctx, conn)
	}
	if stop, ok := errors.AsType[*cdc.StopError](st.Problem); ok && stop.Reason == postgres.UnfitTable { // no change of the publication
		return cdc.Stop(cdc.ClassPosition, stop.Reason, stop.Cause, stop.Fix)
	}
	if st.Detaching != "" {
		const warning = postgres.NotPublishedWhileDetached
		s.log.Warn(warning, cdc.Repeats(), slog.String("fix", postgres.FixDetaching(st.Detaching)))
	}
	if err := m.ss.verifyAsynchronous(ctx, conn); err != nil {
		return err
	}
	m.good.Store(seen)
	m.accept()
	if s.opts.Temporary {
		return nil
	}
	slot, err := postgres.ReadSlot(ctx, conn, s.opts.Slot)
	if err != nil {
		return postgres.QueryError(conn, err)
	}
	m.ended = slot.Ended
	var received lsn
	if k, ok := s.positions.at(seen); ok {
		received = k.resume
	}
	seenSlot := slot.Status(received)
	seenSlot.AskedAt = time.Now()
	s.metrics.clock.WithLabelValues().Set(slot.ClockAhead.Seconds())
	s.slot.Store(&seenSlot)
	m.look.Store(&seenSlot)
	s.metrics.observeSlot(seenSlot)
	if m.ss.standby && !slot.Recovery {
		return errPromoted
	}
	return slot.Usable(s.opts.Slot, slot.Database)
}

// accept has the horizon of the look before wait for its place, unless an earlier one still does.
func (m *monitor) accept() {
	if ended := m.ended; ended.XMin > 0 {
		m.ss.ended.CompareAndSwap(nil, &ended)
	}
}

// reconnect replaces the ordinary connection if it was lost.
func (ss *session) reconnect(ctx context.Context) error {
	if !ss.sql.IsClosed() {
		return nil
	}
	conn, err := ss.connectAgain(ctx)
	if err == nil {
		ss.sql = conn
	}
	return err
}

// connectAgain opens another ordinary connection to the session's server. The caller closes it.
func (ss *session) connectAgain(ctx context.Context) (*pgx.Conn, error) {
	conn, err := postgres.Connect(ctx, ss.src.opts.Options)
	if err != nil {
		return nil, err
	}
	started, err := postgres.Started(ctx, conn)
	if err == nil && started != ss.serverStarted {
		err = postgres.ErrTwoServers()
	}
	if err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

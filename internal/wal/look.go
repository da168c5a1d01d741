package wal

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// lookTimeout bounds one look.
const lookTimeout = 5 * time.Second

// look watches the publication and the slot from an ordinary connection, once in a while. Nothing is
// confirmed past what was received before the last good look. Its connection also hears of a shutdown
// first: the server ends ordinary sessions before it waits for walsenders.
type look struct {
	ss   *session
	good atomic.Uint64 // seq handed on before the last good look began
	// verdict takes the one error that ends the attempt.
	verdict chan error
	cancel  context.CancelFunc
	done    chan struct{}
	conn    *pgx.Conn // nil: lost
}

// startLook takes over the session's ordinary connection until stop returns.
func startLook(ctx context.Context, ss *session) *look {
	ctx, cancel := context.WithCancel(ctx)
	l := &look{ss: ss, verdict: make(chan error, 1), cancel: cancel, done: make(chan struct{}), conn: ss.sql}
	go l.run(ctx)
	return l
}

// stop ends the looks and waits for the one under way. Afterwards the connection is the caller's.
func (l *look) stop() {
	l.cancel()
	<-l.done
}

func (l *look) run(ctx context.Context) {
	defer close(l.done)
	ticker := time.NewTicker(l.ss.src.opts.LookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := l.once(ctx, l.ss.src.handed.Load())
		if l.final(ctx, err) {
			l.verdict <- err
			return
		}
	}
}

// final says whether err ends the attempt. A lost connection does not: it is made again at the next
// look, and until then nothing is confirmed.
func (l *look) final(ctx context.Context, err error) bool {
	var stop *cdc.StopError
	if err == nil || ctx.Err() != nil {
		return false
	}
	if errors.Is(err, errServerStopping) || errors.As(err, &stop) && stop.Class == cdc.ClassPosition {
		return true
	}
	l.ss.src.log.Warn("publication cannot be looked at: nothing is confirmed to PostgreSQL until it can", "error", err)
	return false
}

// once looks at the publication and the slot; seen is what was handed on before.
func (l *look) once(ctx context.Context, seen uint64) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	s := l.ss.src
	if err := l.connect(ctx); err != nil {
		return err
	}
	st, err := readPublication(ctx, l.conn, s.opts.Publication, s.opts.Tables, l.ss.version)
	if err != nil {
		return l.lost(err)
	}
	if s.baseline.changed(st.fingerprint, s.tracked) {
		return s.publicationChanged()
	}
	l.good.Store(seen)
	if s.opts.Temporary {
		return nil
	}
	slot, err := readSlot(ctx, l.conn, s.opts.Slot)
	if err != nil {
		return l.lost(err)
	}
	var received lsn
	if k, ok := s.marks.at(seen); ok {
		received = k.resume
	}
	seenSlot := slot.status(received)
	s.slot.Store(&seenSlot)
	s.metrics.look(seenSlot)
	return slot.usable(s.opts.Slot, slot.Database)
}

func (l *look) connect(ctx context.Context) error {
	if l.conn != nil && !l.conn.IsClosed() {
		return nil
	}
	conn, err := ConnectSQL(ctx, l.ss.src.opts)
	if err != nil {
		return err
	}
	l.conn, l.ss.sql = conn, conn
	return nil
}

// lost sorts a failed query: the server ending our session is its word for a shutdown.
func (l *look) lost(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == stateAdminShutdown || pg.Code == stateCannotConnectNow) {
		return fmt.Errorf("%w: %s", errServerStopping, pg.Message)
	}
	return err
}

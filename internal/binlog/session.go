package binlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

const (
	// tickInterval is how often the owner comes round when nothing is read.
	tickInterval = 500 * time.Millisecond
	// patience is how long a connection may stay without being read. A server that is shutting down waits for its dump
	// thread, which is stuck in writing to such a connection.
	patience = 2 * time.Second
)

// session is one attempt at the stream. Everything in it belongs to the owner (Acquire, then Run).
type session struct {
	*dump

	src      *Source
	charsets map[uint64]mysql.Charset
	from     mysql.Set // where the server begins
	out      cdc.Queue

	// hungUp: the connection was closed because there was no room; what was read is still handed on.
	hungUp bool

	gate *gate // nil: rows do not wait until they are visible

	schemas map[uint64]*schema // by table id, in the current transaction
	known   map[string]*schema // by table: what was decoded before
	tx      transaction
	batch   *batch    // rows not handed on yet, all of whole transactions; or nil
	beat    time.Time // when a heartbeat was last handed on
	payload payload
}

func newSession(s *Source, d *dump) *session {
	return &session{dump: d, src: s, schemas: map[uint64]*schema{}, known: map[string]*schema{}}
}

// close gives the connection up.
func (ss *session) close() {
	if ss == nil {
		return
	}
	_ = ss.conn.Close()
	ss.src.held.reset()
	ss.payload.close()
	if ss.gate != nil {
		ss.gate.Close()
	}
}

// Run streams until ctx ends or the attempt fails, and hands batches to out. It must follow a successful
// Acquire. It blocks; while out is full it reads nothing. When ctx ends it returns nil.
//
// A [cdc.StopError] is for people; any other error is retryable.
func (s *Source) Run(ctx context.Context, out cdc.Queue) error {
	ss := s.session
	s.session = nil
	ss.out = out
	defer ss.close()
	if s.received == nil { // not in Acquire: after a Release another relay may lead, and move the checkpoint
		s.received = ss.from.Clone()
		s.next.seq = s.handed.Load()
		s.positions.start(ss.from, s.next)
	}
	s.connected.Store(true)
	defer s.connected.Store(false)
	stop := context.AfterFunc(ctx, func() { _ = ss.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err := ss.stream(ctx)
	if ctx.Err() != nil {
		ss.drop()
		return nil
	}
	// Flush pending rows: their transactions are complete and will not be re-read.
	if ferr := ss.flush(ctx); ferr != nil {
		ss.drop()
		return nil // only the end of ctx keeps rows from being handed on
	}
	return ss.unsent(err)
}

func (ss *session) drop() {
	if ss.batch != nil {
		ss.batch.Release()
		ss.batch = nil
	}
}

// stream is the owner's loop.
func (ss *session) stream(ctx context.Context) error {
	for {
		if err := ss.cut(ctx); err != nil {
			return err
		}
		if err := ss.tick(ctx); err != nil {
			return err
		}
		if ss.hungUp {
			return errHungUp()
		}
		if err := ss.conn.SetReadDeadline(time.Now().Add(tickInterval)); err != nil {
			return fmt.Errorf("read binlog: %w", err)
		}
		if err := ctx.Err(); err != nil { // the deadline above may have undone the interrupt
			return err
		}
		if err := ss.fill(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if since := time.Since(ss.read); since > silence {
			return fmt.Errorf("read binlog: the server has sent nothing for %s, not even a heartbeat", since.Round(time.Second))
		}
	}
}

// cut takes in every whole event that was read.
func (ss *session) cut(ctx context.Context) error {
	for {
		packet, err := ss.packet()
		if err != nil {
			return ss.unlessDamaged(err)
		}
		if packet == nil {
			return ss.flush(ctx)
		}
		e, err := ss.event(packet)
		if err != nil && ss.tx.again && packet[0] == gomysql.ERR_HEADER && !errors.As(err, new(*damage)) {
			ss.src.direct = true // only what is behind the position must be readable, and that may be in a later file
			return fmt.Errorf("read binlog before the position: %s", cdc.LastCause(err))
		}
		if err != nil {
			return ss.unlessDamaged(err)
		}
		if err := ss.take(ctx, e); err != nil {
			return ss.located(ctx, err)
		}
	}
}

// tick does what time asks for. An outbox that is idle in a busy database must move its position on, or the
// server purges its binlog past it. While batches are in flight a heartbeat moves nothing: one after the other they would
// fill the memory.
func (ss *session) tick(ctx context.Context) error {
	now, s := time.Now(), ss.src
	s.lastTick.Store(now.UnixNano())
	if lost := s.leader.Lost(); lost != nil {
		return fmt.Errorf("read binlog: %w", lost)
	}
	if now.Sub(ss.beat) < tickInterval || s.saved.Load() < s.handed.Load() || !s.positions.news() {
		return nil
	}
	ss.beat = now
	ss.batch = s.batches.take(nil)
	return ss.flush(ctx)
}

// flush hands the pending batch on, waiting for room.
func (ss *session) flush(ctx context.Context) error {
	b := ss.batch
	if b == nil {
		return nil
	}
	s := ss.src
	b.Seq = s.handed.Load() + 1
	k := s.next
	k.seq, k.part = b.Seq, ss.partial()
	s.positions.set(k) // before the offer: the batch may be durable before Offer returns
	rows := b.Rows()
	b.Bytes = cap(b.Arena) + len(b.Spans)*8
	if rows > 0 {
		s.metrics.received.WithLabelValues(b.Table.String()).Add(float64(rows))
	} else {
		b.Bytes = 0
	}
	for since := time.Now(); !ss.out.Offer(&b.Batch); {
		if err := ss.waitForSpace(ctx); err != nil {
			return err
		}
		if time.Since(since) > patience {
			ss.hangUp()
		}
	}
	ss.batch = nil
	s.handed.Store(b.Seq)
	return nil
}

// partial is the transaction of which only some rows have been handed on once the pending batch is.
func (ss *session) partial() part {
	if ss.tx.open && ss.tx.ordinal > ss.tx.skip {
		return part{ss.tx.id.String(), ss.tx.ordinal}
	}
	return ss.src.next.part
}

// hangUp closes the connection and keeps what was read of it: a transaction that is being handed on is handed on to its end.
// The next attempt, which is made when there is room, goes on behind that.
func (ss *session) hangUp() {
	if ss.hungUp {
		return
	}
	ss.hungUp = true
	ss.src.connected.Store(false)
	_ = ss.conn.Close()
}

func errHungUp() error {
	return cdc.Fixable("find out why Kafka does not acknowledge, or raise in_flight.bytes and in_flight.events",
		"%w: the window was full for more than %s, and an unread connection delays the server's shutdown", cdc.ErrHungUp, patience)
}

func (ss *session) waitForSpace(ctx context.Context) error {
	timer := time.NewTimer(tickInterval)
	defer timer.Stop()
	select {
	case <-ss.out.Space():
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	now := time.Now()
	ss.src.lastTick.Store(now.UnixNano())
	ss.read = now // whatever the server sends meanwhile, we do not read
	return nil
}

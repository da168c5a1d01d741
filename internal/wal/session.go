package wal

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/visibility"
)

// tickInterval is how often the owner comes round when nothing is read.
const tickInterval = 500 * time.Millisecond

// session is one attempt at the stream. Everything in it belongs to its owner: Acquire, then a [held] that serves it, then Run.
type session struct {
	src     *Source
	sql     *pgx.Conn      // the monitor's while it runs
	repl    *pgconn.PgConn // takes commands until hijack
	conn    net.Conn       // the socket of repl, from hijack on
	version int
	// serverStarted identifies the server of both connections; see sameServer.
	serverStarted string
	standby       bool // whether the server was one when the slot was acquired
	text          bool
	startAt       startPoint
	due           part // a transaction that must come, because some of its rows were handed on before
	walsender     int  // its process ID; 0: not known
	leftover      []byte
	waits         bool // the server waits for a standby

	out       cdc.Queue
	monitor   *monitor  // who owns the session starts and stops it
	readUntil time.Time // the deadline of conn
	chunk     *chunk
	r, w      int // chunk.buf[r:w] is read and not yet decoded
	relations map[uint32]*relation
	domains   map[uint32]string // the server's own types behind users' domains, by OID
	tx        transaction
	batch     *pooledBatch                     // rows not handed on yet, or nil
	debt      int                              // bytes kept in memory by batches handed on; the next batch is charged for them
	received  prometheus.Counter               // counts the rows of batch
	reached   lsn                              // how far the server has come in the WAL
	next      mark                             // what the next batch handed on makes safe
	ended     atomic.Pointer[postgres.Horizon] // set by the looks: waits until the position has passed its place
	said      status
	pings     pings
	gate      *visibility.Gate[committed]
}

func newSession(s *Source, sql *pgx.Conn, repl *pgconn.PgConn) *session {
	s.behind.Store(nil)
	ss := &session{src: s, sql: sql, repl: repl, relations: map[uint32]*relation{}, domains: map[uint32]string{}}
	ss.gate = newGate(ss)
	return ss
}

// close gives the connections up, and with them the slot. The monitor must be stopped.
func (ss *session) close(ctx context.Context) {
	ss.goesOn()
	ss.gate.Close()
	postgres.CloseConn(ctx, ss.repl) // does nothing after hijack
	_ = ss.repl.Conn().Close()
	postgres.CloseConn(ctx, ss.sql.PgConn())
}

// Run streams until ctx ends or the attempt fails, and hands batches to out. It must follow a
// successful Acquire. It blocks; while out is full it keeps serving the connection. When ctx ends it
// looks once more, tells the server the last position that Confirm allowed, and returns nil.
//
// The slot is free when Run returns. A [cdc.StopError] is for people; any other error is retryable.
func (s *Source) Run(ctx context.Context, out cdc.Queue) error {
	ss, err := s.held.takeBack()
	s.held = nil
	defer ss.close(ctx)
	if err != nil {
		return err
	}
	if err := ss.verifyHeld(ctx); err != nil {
		return err
	}
	ss.monitor = startMonitor(ctx, ss)
	defer ss.monitor.stop()
	if s.opts.WaitUntilVisible {
		if err := ss.gate.Open(ctx); err != nil {
			return err
		}
	}
	ss.prepare(out)
	defer ss.dropBatch()
	s.connected.Store(true)
	defer s.connected.Store(false)

	interrupted := make(chan struct{})
	interrupt := context.AfterFunc(ctx, func() {
		_ = ss.conn.SetReadDeadline(time.Unix(1, 0)) // wakes a reader at once
		close(interrupted)
	})
	err = ss.stream(ctx)
	disarmed := interrupt()
	if ctx.Err() == nil {
		return err
	}
	if !disarmed { // or ctx ended just now, and the stream saw it first
		<-interrupted
	}
	ss.monitor.stop()
	return ss.farewell(context.WithoutCancel(ctx))
}

func (ss *session) prepare(out cdc.Queue) {
	s := ss.src
	ss.out = out
	ss.due = s.handedOn.part
	ss.next = mark{seq: s.handed.Load(), resume: ss.startAt.from, lastEnd: ss.startAt.lastEnd, lastXID: ss.startAt.lastXID, part: ss.due, xmin: ss.startAt.xmin}
	if k, ok := s.positions.at(ss.next.seq); ok && k.lastEnd > ss.next.lastEnd { // of what was handed on before and is not saved yet
		ss.next.lastEnd, ss.next.lastXID = k.lastEnd, k.lastXID
	}
	s.positions.add(ss.next)
	ss.chunk = s.arenas.take(max(chunkSize, len(ss.leftover)+minRead))
	ss.w = copy(ss.chunk.buf, ss.leftover)
	ss.leftover = nil
}

// stream is the owner's loop.
func (ss *session) stream(ctx context.Context) error {
	for {
		if err := ss.decode(ctx); err != nil {
			return err
		}
		if err := ss.tick(ctx, time.Now()); err != nil {
			return err
		}
		if err := ss.fill(ctx); err != nil {
			return err
		}
	}
}

// fill reads what the socket has, at least one byte, or returns after a tick.
func (ss *session) fill(ctx context.Context) error {
	if now := time.Now(); ss.pings.due || ss.readUntil.Sub(now) < tickInterval/2 { // not for each read: it moves a timer
		ss.readUntil = now.Add(ss.untilTick())
		if err := ss.conn.SetReadDeadline(ss.readUntil); err != nil {
			return fmt.Errorf("read the replication stream: %w", err)
		}
	}
	if err := ctx.Err(); err != nil { // the deadline above may have undone the interrupt
		return err
	}
	n, err := ss.conn.Read(ss.chunk.buf[ss.w:])
	ss.w += n
	if err != nil && !os.IsTimeout(err) {
		return fmt.Errorf("read the replication stream: %w", err)
	}
	return nil
}

// minRead is the least room for a read to be worth a system call.
const minRead = 4 << 10

// makeRoom sees to it that the frame of need bytes at r fits into the chunk, and that there is room to
// read into. Rows handed on stay in the old chunk; only an incomplete frame is moved.
func (ss *session) makeRoom(ctx context.Context, need int) error {
	tail := ss.chunk.buf[ss.r:ss.w]
	if len(tail) == 0 && ss.batch == nil && ss.chunk.refs.Load() == 1 && len(ss.chunk.buf) == chunkSize {
		ss.r, ss.w, ss.chunk.charged = 0, 0, 0 // no batch refers to it: reuse it
		return nil
	}
	if ss.r+need <= len(ss.chunk.buf) && len(ss.chunk.buf)-ss.w >= minRead {
		return nil
	}
	if err := ss.flush(ctx); err != nil { // a batch has one arena
		return err
	}
	fresh := ss.src.arenas.take(max(need+minRead, chunkSize))
	copy(fresh.buf, tail)
	ss.debt += ss.chunk.uncharged()
	ss.src.arenas.release(ss.chunk)
	ss.chunk, ss.r, ss.w = fresh, 0, len(tail)
	return nil
}

func (ss *session) dropBatch() {
	if ss.batch != nil {
		ss.batch.Release()
		ss.batch = nil
	}
	ss.src.arenas.release(ss.chunk)
}

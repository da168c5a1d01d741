package binlog

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// Options configure a Source; see config for their defaults.
type Options struct {
	mysql.Options

	// FromNow begins at the end of the binlog where no checkpoint is stored, for a dry run.
	FromNow bool
	// HarmlessTables ("percona.checksums") are tables that logged statements may change; see statement_format.go.
	HarmlessTables []string
	// NoLock reads beside the relay that leads.
	NoLock bool
	// Problems takes what is wrong with the server at present; nil: nobody asks for it.
	Problems *cdc.Problems
	// Verify is asked about each table's schema before anything is read; nil: it is not called. An error ends
	// Acquire.
	Verify func(*cdc.Table) error
}

// Source tails one server's log. Its methods may be called from any goroutine, but Acquire and Run only one
// at a time: what they keep between attempts belongs to their caller.
type Source struct {
	opts      Options
	log       *slog.Logger
	metrics   *metrics
	batches   batches
	positions positionIndex

	handed atomic.Uint64 // seq of the last batch handed on
	saved  atomic.Uint64 // seq of the last one that was confirmed

	// Kept between attempts; owned by the caller of Acquire and Run.
	leader   mysql.Leader
	session  *session
	flavor   cdc.Flavor
	account  string    // the server's name for us
	caseless bool      // the server does not tell Outbox from outbox
	received mysql.Set // every transaction handed on; nil: nothing yet
	next     mark      // what the next batch makes safe; its part is of a transaction that comes again, its stamp and hint may be the checkpoint's
	direct   bool      // the stream must begin behind the position, because it cannot be read up to there
	adopting error     // why the checkpoint is refused, unless this is the server that it was saved on; see adopts
	held     txBuffer
	// damagedAt is the place of the last event that could not be read; see damaged.
	damagedAt string

	// For Status, written by the owner.
	connected atomic.Bool
	confirmed atomic.Pointer[cdc.Position]
	lastTick  atomic.Int64 // Unix nanoseconds
	lag       atomic.Int64 // nanoseconds
	lastSeen  atomic.Pointer[mysql.GTID]
	server    atomic.Pointer[cdc.Flavor]
}

// New returns a Source that has not connected yet.
func New(opts Options, log *slog.Logger, reg prometheus.Registerer) *Source {
	if opts.Problems == nil {
		opts.Problems = new(cdc.Problems)
	}
	s := &Source{opts: opts, log: log, held: txBuffer{limit: heldBytes}}
	s.metrics = newMetrics(reg)
	s.leader.Clock = func(ahead time.Duration) { s.metrics.clock.Set(ahead.Seconds()) }
	return s
}

// Progress says how far the binlog is safe now that the batch seq and all before it are durable: as far as that, or
// as a greater seq that it was called for before.
func (s *Source) Progress(seq uint64) cdc.Progress {
	p, ok := s.positions.progress(seq)
	if ok {
		s.confirmed.Store(&p.Position)
	}
	if p.Part.Rows > 0 {
		p.Part.Tables = cdc.CountedTables(s.opts.Tables)
	}
	return p
}

// Confirm says that all batches up to seq are durable downstream and their position is saved. The server
// keeps no position for us, so nothing is sent.
func (s *Source) Confirm(seq uint64) { s.saved.Store(seq) }

// Status returns the state as of now.
func (s *Source) Status() cdc.SourceStatus {
	st := cdc.SourceStatus{Connected: s.connected.Load()}
	if f := s.server.Load(); f != nil {
		st.Flavor = string(*f)
	}
	if p := s.confirmed.Load(); p != nil {
		st.Confirmed = string(*p)
	}
	if g := s.lastSeen.Load(); g != nil {
		st.Received = g.String()
	}
	if t := s.lastTick.Load(); t != 0 {
		st.LastTick = time.Unix(0, t)
	}
	return st
}

func (s *Source) tracked(table string) bool {
	return mysql.ConfiguredName(s.opts.Tables, s.caseless, table) != ""
}

// Release gives up what Acquire took, and forgets what was handed on: the next Acquire starts from what its load returns.
// Run must have ended.
func (s *Source) Release(context.Context) {
	if s.session != nil {
		s.session.close()
		s.session = nil
	}
	s.next, s.received, s.damagedAt = mark{}, nil, ""
	s.positions.reset()
	s.saved.Store(s.handed.Load())
	s.leader.Release()
}

// Lag is how old the transaction that came last was when it came, whatever table it wrote to: so a relay that works
// its way through the binlog of other tables is seen to be behind. It is 0 at the end of the binlog.
//
// A reader at the end of the binlog gets each transaction as it is committed, so what is left of a small age is the
// network, the clocks of two machines, and MariaDB's whole seconds. A large one does not outlast the transaction that
// had it: the next one brings its own, and an idle server says by a heartbeat that there is no next one. While the
// database is away it stays.
func (s *Source) Lag() time.Duration { return time.Duration(s.lag.Load()) }

// atEnd is the age up to which a transaction is taken for one that has just been committed.
const atEnd = 2 * time.Second

// aged notes a transaction's commit time, Unix microseconds, when it begins to come.
func (ss *session) aged(micros int64) {
	age := ss.read.Sub(time.UnixMicro(micros))
	if age < atEnd {
		age = 0
	}
	ss.src.lag.Store(int64(age))
}

// idle notes a heartbeat: the server has sent all that it has.
func (ss *session) idle() { ss.src.lag.Store(0) }

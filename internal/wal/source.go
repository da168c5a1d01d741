package wal

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// Options configure a Source; see config for their defaults.
type Options struct {
	postgres.Options

	// Verify is asked about each table's schema before anything is read; nil: it is not called. An error ends
	// Acquire.
	Verify func(*cdc.Table) error
	// Problems takes what is wrong with the server at present; nil: nobody asks for it.
	Problems *cdc.Problems
	// SlotAlone says that nothing but the slot holds the position: what the next start must know is noted in the WAL.
	SlotAlone bool
	// PassAlteration does not stop at the note of an altered publication: what was missing has been published.
	PassAlteration bool
	// Temporary makes a slot of its own that ends with the connection, for a dry run.
	Temporary bool
	// Text asks for text mode even where binary would do.
	Text bool
}

func (o *Options) tracked(table string) bool { return slices.Contains(o.Tables, table) }

// Source tails one slot. Its methods may be called from any goroutine, but Acquire and Run only one
// at a time: what they keep between attempts belongs to their caller.
type Source struct {
	opts      Options
	log       *slog.Logger
	metrics   *metrics
	arenas    arenas
	positions positionIndex

	handed atomic.Uint64 // seq of the last batch handed on
	saved  atomic.Uint64 // seq up to which Confirm was called: durable in Kafka, and saved

	// Kept between attempts; owned by the caller of Acquire and Run.
	held     *held // between Acquire and Run
	acquired bool  // before
	text     bool
	handedOn handedOn
	baseline postgres.Fingerprint // of the publication as first seen
	oids     map[uint32]string    // the configured tables' names by OID, at the same time
	types    postgres.Types       // of their columns, at the same time, and of those that the stream had since
	read     cdc.Source           // what the last Acquire returned

	// Written by the owner and the monitor, read by any goroutine.
	connected atomic.Bool
	confirmed atomic.Uint64 // see lastConfirmed; the owner's to write
	lastTick  atomic.Int64  // Unix nanoseconds
	slot      atomic.Pointer[cdc.SlotStatus]
	behind    atomic.Pointer[cdc.SlotStatus] // see noteBehind
}

// handedOn is how far rows were handed on, by this process or according to the checkpoint, so that none is handed on
// twice.
type handedOn struct {
	end lsn // every transaction that ends here or before was handed on
	part
}

// part is a transaction of which only the first rows were handed on. The zero value is none.
type part struct {
	commit lsn // LSN of its commit record
	xid    uint32
	rows   uint32
}

// New returns a Source that has not connected yet.
func New(opts Options, log *slog.Logger, reg prometheus.Registerer) *Source {
	if opts.Problems == nil {
		opts.Problems = new(cdc.Problems)
	}
	return &Source{opts: opts, log: log, text: opts.Text, metrics: newMetrics(reg)}
}

// Progress says how far the WAL is safe once the batch seq and all before it are durable. It may be
// called for any seq that is not below the last confirmed one.
func (s *Source) Progress(seq uint64) cdc.Progress {
	k, ok := s.positions.progressed(seq)
	if !ok {
		return cdc.Progress{}
	}
	p := k.progress()
	if p.Part.Rows > 0 {
		p.Part.Tables = cdc.CountedTables(s.opts.Tables)
	}
	return p
}

// Confirm says that all batches up to seq are durable downstream and their position is saved. It never
// blocks; the server is told with the next status that a look at the publication allows.
func (s *Source) Confirm(seq uint64) { s.saved.Store(seq) }

// Status returns the state as of now.
func (s *Source) Status() cdc.SourceStatus {
	st := cdc.SourceStatus{Flavor: "postgresql", Connected: s.connected.Load(), Confirmed: s.lastConfirmed().String(), Slot: s.slot.Load()}
	if k, ok := s.positions.at(s.handed.Load()); ok {
		st.Received = k.resume.String()
	}
	if t := s.lastTick.Load(); t != 0 {
		st.LastTick = time.Unix(0, t)
	}
	return st
}

// Lag is how long ago the WAL ended at a place that the stream has not come to: the server decodes a large transaction, or rows are held back.
// What commits meanwhile waits, too. It is 0 below [behindAfter].
func (s *Source) Lag() time.Duration {
	if look := s.behind.Load(); look != nil && time.Since(look.AskedAt) >= behindAfter {
		return time.Since(look.AskedAt)
	}
	return 0
}

// lastConfirmed is the last position confirmed to the server; 0: none.
func (s *Source) lastConfirmed() lsn { return lsn(s.confirmed.Load()) }

package cdc

import "time"

// Position is a place in a database's log to resume from: the end of a transaction, or an idle
// heartbeat, never a place inside a transaction. It is opaque: only the source that issued it parses
// it (an LSN in fixed-width hex, a GTID set). The empty Position means none.
type Position string

// Progress says how far a source has come, as a checkpoint stores it.
type Progress struct {
	// Position is where a new run may resume: everything before it is durable downstream.
	Position Position
	// Commit is the end of the last transaction that held rows of an outbox table and is durable
	// downstream; "" while there was none. It trails Position when the outbox is idle. A log in which
	// this transaction cannot be seen again belongs to another history.
	Commit Position
	// TxID names that transaction in the database's own terms (xid, GTID).
	TxID string
}

// Source identifies the log that a position belongs to. A checkpoint of another source is refused.
type Source struct {
	// SystemID is PostgreSQL's system identifier, or the configured id of a MySQL source.
	SystemID string
	// Database is the database's name.
	Database string
	// Slot is the replication slot's name; "" where the log has no slots.
	Slot string
	// Timeline is PostgreSQL's timeline; 0 elsewhere. A change of it alone is a promotion, not
	// another source.
	Timeline uint32
	// Fingerprint is what a source wants to know again of the objects that decide which rows reach its
	// log (PostgreSQL's publication). Opaque; "" where there are none.
	Fingerprint string
}

// Same reports whether both name the same log. Timelines and fingerprints are not compared.
func (s Source) Same(o Source) bool {
	return s.SystemID == o.SystemID && s.Database == o.Database && s.Slot == o.Slot
}

// Checkpoint is what a checkpoint store keeps.
type Checkpoint struct {
	Source   Source
	Progress Progress
	// Generation counts the runs that have owned this checkpoint; a save from an older one is refused.
	Generation uint64
	// Sequence counts the saves within a generation, so that a late save never undoes a newer one.
	Sequence uint64
	// Fence names the log for sinks that fence an earlier relay of it; made once and then kept.
	Fence string
	// LastEventID is the id of the last event published before Position, for people; "" if unknown.
	LastEventID string
	// SavedAt is when the relay saved it, by the relay's clock.
	SavedAt time.Time
}

package cdc

import (
	"slices"
	"strings"
	"time"
)

// Position is a place in the WAL or binlog to resume from: the end of a transaction or of an idle part, never inside a
// transaction. Only the source that issued it parses it (an LSN in fixed-width hex, a GTID set). "" means none.
type Position string

// Progress is a source's progress, as stored in a checkpoint.
type Progress struct {
	// Position is where a new run resumes: everything before it is durable.
	Position Position `json:"position"`
	// Commit is the end of the last durable transaction with outbox rows, "" if there was none. It is earlier than Position
	// while the outbox is idle. A WAL or binlog that does not have this transaction is of another history. On MySQL and MariaDB it is
	// one of the last transactions before Position, with or without outbox rows, and its time.
	Commit Position `json:"commit"`
	// TxID is that transaction's ID (xid or GTID).
	TxID string `json:"txid"`
	// Hint is MySQL's and MariaDB's: where the server finds the transaction of Commit without a search. Only the source parses it.
	Hint string `json:"hint,omitempty"`
	// XMin is PostgreSQL's: each transaction with a lower ID (64 bits, in decimal) has ended before Position. "" if it is not
	// known.
	XMin string `json:"xmin,omitempty"`
	// Backfill is the condition of the rows that were published before Position, or that are to be while Position is "": [EveryRow] for
	// all. It is lost with the first save of a run.
	Backfill string `json:"backfill,omitempty"`
	// Part is the transaction after Position of which some rows are durable. It is used where data and position are
	// published in one transaction of Kafka, which may be smaller than the database's.
	Part Part `json:"part,omitzero"`
	// Replaced are the tables that others have replaced since the start of the attempt, not later than Position: a line for each time. It
	// is not stored.
	Replaced string `json:"-"`
}

// EveryRow is the condition of a backfill that publishes all rows.
const EveryRow = "TRUE"

// Unfinished returns an error if a backfill has begun and not ended: which rows it has published is not known, and no run may begin.
func (p Progress) Unfinished() error {
	if p.Backfill == "" || p.Position != "" {
		return nil
	}
	return PositionError("backfill_unfinished", "run the same command again, `cdc-relay setup --backfill` with the same --where if it had one, or `cdc-relay backfill`: it begins again",
		"a backfill was interrupted before it had published all of its rows, and stored no position")
}

// Part is a transaction of which only the first rows are durable. The zero value is none.
type Part struct {
	// TxID identifies the transaction. Only the source that issued it parses it.
	TxID string `json:"txid"`
	// Rows is how many rows of the outbox tables are durable, in the order of the WAL or binlog.
	Rows uint32 `json:"rows"`
	// Tables are the outbox tables whose rows were counted, by name, in order, with commas.
	Tables string `json:"tables"`
}

// CountedTables returns Part.Tables for these tables.
func CountedTables(tables []string) string {
	return strings.Join(slices.Sorted(slices.Values(tables)), ",")
}

// SameTables returns an error if the rows would be counted in other tables now.
func (p Part) SameTables(tables string) error {
	if p.Rows == 0 || p.Tables == tables {
		return nil
	}
	return PositionError("tables_changed", "start the relay with the tables as they were, and change them once it has published the transaction; if it cannot, set the position of the checkpoint that `cdc-relay position show` prints with `cdc-relay position set POSITION`, which publishes those rows again",
		"checkpoint is within transaction %s, of whose rows of tables %s %d were published, and the tables are %s now", p.TxID, p.Tables, p.Rows, tables)
}

// Source identifies the WAL or binlog that a position belongs to. A checkpoint of another source is refused.
type Source struct {
	// SystemID is PostgreSQL's system identifier, or the configured ID of a MySQL source.
	SystemID string `json:"system_id"`
	// Database is the database's name.
	Database string `json:"database"`
	// Slot is the name of the replication slot, which has a position of its own; "" for a database where only the checkpoint has
	// one, as MySQL and MariaDB.
	Slot string `json:"slot"`
	// Timeline is PostgreSQL's timeline; 0 on MySQL and MariaDB. If only it changes, a standby was promoted.
	Timeline uint32 `json:"timeline"`
	// Fingerprint identifies the state of PostgreSQL's publication, which decides which rows are sent. Opaque; "" on MySQL
	// and MariaDB.
	Fingerprint string `json:"fingerprint"`
	// Server is when PostgreSQL's server was started, which tells servers apart; "" on MySQL and MariaDB.
	Server string `json:"server,omitempty"`
}

// SlotMoved is the reason of a stop because PostgreSQL's slot is ahead of what this process has confirmed.
const SlotMoved = "slot_moved"

// PublicationAltered is the reason of a stop because PostgreSQL's publication was altered.
const PublicationAltered = "publication_changed"

// Altered is a fingerprint that no publication has. A run that stops because the publication was altered saves it, so that the next start
// stops too, although the alteration may have been taken back.
const Altered = "publication=altered"

// Same reports whether both identify the same WAL or binlog. It does not compare timelines, fingerprints and servers.
func (s Source) Same(o Source) bool {
	return s.SystemID == o.SystemID && s.Database == o.Database && s.Slot == o.Slot
}

// Checkpoint is what a checkpoint store stores; package checkpoint describes the JSON.
type Checkpoint struct {
	Source Source `json:"source"`
	Progress

	// Generation grows with each claim of this checkpoint; a save from an older one is refused.
	Generation uint64 `json:"generation,string"`
	// Sequence counts the saves within a generation, so that a late save never undoes a newer one.
	Sequence uint64 `json:"sequence,string"`
	// Fence is the transactional ID, by which the sink fences earlier relays. It is chosen once and then kept.
	Fence string `json:"fence"`
	// LastEventID is the ID of the last event published before Position, for people; "" if unknown.
	LastEventID string `json:"last_event_id"`
	// SavedAt is when the relay saved it, by the relay's clock.
	SavedAt time.Time `json:"saved_at"`
	// ExactlyOnce says that it is a copy of the position in Kafka, which is the one that counts.
	ExactlyOnce bool `json:"exactly_once,omitempty"`
	// PositionTopic is the topic of that position; "" with at-least-once delivery, and in what earlier versions wrote.
	PositionTopic string `json:"position_topic,omitempty"`
	// Settled names conditions, with spaces between: every row that meets one was published, or comes after Position. See
	// package cleanup.
	Settled string `json:"settled,omitempty"`
}

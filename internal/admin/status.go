package admin

import (
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Status is the JSON at /status. Fields may be added, but are not renamed or removed. Positions are in the source's form
// (PostgreSQL: an LSN) or "".
type Status struct {
	// Verdict says whether events are published, and what to do if not. Instance is the relay's host and port, and Group what the relays of
	// one database have in common.
	Verdict  *Verdict `json:"verdict,omitempty"`
	Now      *Now     `json:"now,omitempty"`
	Instance string   `json:"instance,omitempty"`
	Group    string   `json:"group,omitempty"`
	// State is starting, standby, leading, stopping, stopped or parked.
	State string `json:"state"`
	// Since is when this state began.
	Since time.Time `json:"since"`
	// Ready is the state of /readyz, NotReady the reason if it is false.
	Ready    bool   `json:"ready"`
	NotReady string `json:"not_ready,omitempty"`
	// Connected is true while the WAL or binlog is being read, Stalled if the oldest event in flight has waited for Kafka
	// for a minute.
	Connected bool `json:"connected"`
	// ConnectedSince is since when Connected has its value; absent before it had one.
	ConnectedSince time.Time `json:"connected_since,omitzero"`
	Stalled        bool      `json:"stalled"`

	Source     Source     `json:"source"`
	Positions  Positions  `json:"positions"`
	Lag        Lag        `json:"lag"`
	InFlight   InFlight   `json:"in_flight"`
	Checkpoint Checkpoint `json:"checkpoint"`
	// Slot is absent on MySQL and MariaDB, and before it was first read.
	Slot *cdc.SlotStatus `json:"slot,omitempty"`
	// DeadLetters is absent where there can be none.
	DeadLetters *cdc.DeadLetters `json:"dead_letters,omitempty"`
	// Leader says which process leads, while this relay stands by.
	Leader string `json:"leader,omitempty"`
	// Problems are those with the servers that the relay needs, at present, the oldest first.
	Problems []Problem `json:"problems,omitempty"`
	// LastError is the last error, even if it has passed; absent if there was none.
	LastError *Error `json:"last_error,omitempty"`
	// Counters are the counters of /metrics, without "cdc_relay_" and "_total", summed over their labels.
	Counters map[string]float64 `json:"counters,omitempty"`

	Version   string    `json:"version"`
	Revision  string    `json:"revision,omitempty"`
	StartedAt time.Time `json:"started_at"`
}

// Source identifies the WAL or binlog.
type Source struct {
	SystemID string `json:"system_id"`
	Database string `json:"database"`
	Slot     string `json:"slot,omitempty"`
	Timeline uint32 `json:"timeline,omitempty"`
}

// Now are numbers of the present; what is absent is not known.
type Now struct {
	PerSecond    *float64 `json:"per_second,omitempty"`
	Lag          *float64 `json:"lag,omitempty"`
	P50          *float64 `json:"p50,omitempty"`
	P99          *float64 `json:"p99,omitempty"`
	Waiting      *int     `json:"waiting,omitempty"`
	WaitingBytes *int     `json:"waiting_bytes,omitempty"`
	// KeptBytes of WAL are kept for the slot, of LimitBytes that may be.
	KeptBytes  *int64 `json:"kept_bytes,omitempty"`
	LimitBytes *int64 `json:"limit_bytes,omitempty"`
	// LostIn is in how many seconds events are lost.
	LostIn      *float64 `json:"lost_in,omitempty"`
	DeadLetters *int     `json:"dead_letters,omitempty"`
	Held        *int     `json:"held,omitempty"`
}

// Positions are in the order in which an event passes them; each is at or before the one above it.
type Positions struct {
	// Received is the position up to which the database has sent.
	Received string `json:"received"`
	// Acked is the position up to which Kafka has acknowledged everything.
	Acked string `json:"acked"`
	// Saved is the position in the checkpoint.
	Saved string `json:"saved"`
	// Confirmed was reported to the database, which may remove WAL before it.
	Confirmed string `json:"confirmed"`
}

// Lag is how far Kafka lags behind the database.
type Lag struct {
	// Seconds is the age of the oldest event that Kafka has not acknowledged; 0 if there is none.
	Seconds float64 `json:"seconds"`
	// Bytes of WAL between Acked and the end of the WAL; absent if unknown.
	Bytes *int64 `json:"bytes,omitempty"`
}

// InFlight is what was received and is not safe yet: events until their position is saved, bytes until Kafka has acknowledged them.
type InFlight struct {
	Events int `json:"events"`
	Bytes  int `json:"bytes"`
	// Since is since when the oldest of them waits for Kafka; absent if none does.
	Since time.Time `json:"since,omitzero"`
}

// Checkpoint is the last one saved.
type Checkpoint struct {
	Generation  uint64    `json:"generation"`
	Sequence    uint64    `json:"sequence"`
	SavedAt     time.Time `json:"saved_at,omitzero"`
	LastEventID string    `json:"last_event_id,omitempty"`
}

// Problem is what is wrong with a server at present.
type Problem struct {
	// With is database, kafka or checkpoint, or write_back for rows that are not marked.
	With string `json:"with"`
	// Server is the broker's address; absent if the text names the server.
	Server string    `json:"server,omitempty"`
	Since  time.Time `json:"since"`
	// Holds says that events wait although the WAL or binlog is read.
	Holds bool `json:"-"`
	// Text is Cause and Fix.
	Text  string `json:"text"`
	Cause string `json:"cause,omitempty"`
	Fix   string `json:"fix,omitempty"`
}

// Error is an error and when it happened.
type Error struct {
	// Text is Cause and Fix; of what has passed the cause alone.
	Text  string    `json:"text"`
	Cause string    `json:"cause,omitempty"`
	Fix   string    `json:"fix,omitempty"`
	At    time.Time `json:"at"`
	// Past says that its cause has passed.
	Past bool `json:"past,omitempty"`
}

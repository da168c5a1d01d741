package admin

import "time"

// Status is what a relay says of itself, as JSON at /status. Fields are added over time and neither
// renamed nor removed. Positions are in the source's own form (PostgreSQL: an LSN); "" is none.
type Status struct {
	// State is starting, standby, leading, stopping, stopped or parked.
	State string `json:"state"`
	// Since is when this state began.
	Since time.Time `json:"since"`
	// Ready is what /readyz answers, NotReady why it is false.
	Ready    bool   `json:"ready"`
	NotReady string `json:"not_ready,omitempty"`
	// Connected says that the database's log is being read, Stalled that nothing has become durable
	// downstream for a while though something is in flight.
	Connected bool `json:"connected"`
	Stalled   bool `json:"stalled"`

	Source     Source     `json:"source"`
	Positions  Positions  `json:"positions"`
	Lag        Lag        `json:"lag"`
	InFlight   InFlight   `json:"in_flight"`
	Checkpoint Checkpoint `json:"checkpoint"`
	// Slot is absent where the log has no slots, and until it was first looked at.
	Slot *Slot `json:"slot,omitempty"`
	// LastError is the last thing that went wrong, fixed or not; absent when nothing has.
	LastError *Error `json:"last_error,omitempty"`
	// Counters are this process's, from its start: every counter of /metrics without "cdc_relay_" and
	// "_total", summed over its labels. The server fills them in.
	Counters map[string]float64 `json:"counters"`

	Version   string    `json:"version"`
	Revision  string    `json:"revision,omitempty"`
	StartedAt time.Time `json:"started_at"`
}

// Source names the log that is read.
type Source struct {
	SystemID string `json:"system_id"`
	Database string `json:"database"`
	Slot     string `json:"slot,omitempty"`
	Timeline uint32 `json:"timeline,omitempty"`
}

// Positions in the order in which an event passes them; each is at or before the one above it.
type Positions struct {
	// Received from the database.
	Received string `json:"received"`
	// Acked is durable downstream without a gap.
	Acked string `json:"acked"`
	// Saved in the checkpoint.
	Saved string `json:"saved"`
	// Confirmed to the database, which may forget what lies before.
	Confirmed string `json:"confirmed"`
}

// Lag is how far what is published trails what is committed.
type Lag struct {
	// Seconds is the age of the oldest event that is not durable downstream; 0 when there is none.
	Seconds float64 `json:"seconds"`
	// Bytes of log between the database's end and what is durable downstream; absent when unknown.
	Bytes *int64 `json:"bytes,omitempty"`
}

// InFlight is what was received and is not durable downstream yet.
type InFlight struct {
	Events int `json:"events"`
	Bytes  int `json:"bytes"`
}

// Checkpoint is the last one saved; zero until then.
type Checkpoint struct {
	Generation  uint64    `json:"generation"`
	Sequence    uint64    `json:"sequence"`
	SavedAt     time.Time `json:"saved_at,omitzero"`
	LastEventID string    `json:"last_event_id,omitempty"`
}

// Slot is what the database says of the replication slot.
type Slot struct {
	// Status is PostgreSQL's wal_status: reserved, extended, unreserved or lost.
	Status string `json:"status"`
	// RetainedBytes of log that the database keeps for the slot.
	RetainedBytes int64 `json:"retained_bytes"`
	// SafeBytes may still be written before the slot is in danger; absent when there is no limit.
	SafeBytes *int64 `json:"safe_bytes,omitempty"`
}

// Error is something that went wrong.
type Error struct {
	Text string    `json:"text"`
	At   time.Time `json:"at"`
}

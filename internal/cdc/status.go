package cdc

import "time"

// SourceStatus is the state of a source as of now, for people, /status and /livez.
type SourceStatus struct {
	// Flavor is postgresql, mysql or mariadb, for cdc_relay_info; empty until it is known.
	Flavor    string
	Connected bool
	// LastTick is when the goroutine that owns the connection last served it: old means stuck.
	LastTick time.Time
	// Received is up to where the WAL or binlog was taken in, Confirmed what was confirmed last; both as the database prints positions.
	Received, Confirmed string
	// Slot is the last look at the replication slot; nil: there was none.
	Slot *SlotStatus
}

// SlotStatus is what PostgreSQL says of a replication slot. It is part of the JSON at /status.
type SlotStatus struct {
	// Status is PostgreSQL's wal_status: reserved, extended, unreserved or lost.
	Status string `json:"status"`
	// RetainedBytes of WAL are kept for the slot.
	RetainedBytes int64 `json:"retained_bytes"`
	// SafeBytes of WAL may still be written before the slot is in danger of being lost; absent if there is no limit.
	SafeBytes *int64 `json:"safe_bytes,omitempty"`
	// LagBytes of WAL are written and not received yet.
	LagBytes int64 `json:"-"`
	// End is the end of the WAL in bytes: two of them tell how fast it grows.
	End uint64 `json:"-"`
	// AskedAt is when PostgreSQL said so.
	AskedAt time.Time `json:"asked_at,omitzero"`
}

// DeadLetters are the events that are kept because they cannot be published. It is part of the JSON at /status.
type DeadLetters struct {
	// Events that are not resolved, and those among them that are held behind another one of their key.
	Events int `json:"events"`
	Held   int `json:"held"`
	// Keys whose events go there.
	Keys int `json:"keys"`
	// Oldest is since when the oldest is there.
	Oldest time.Time `json:"oldest,omitzero"`
	// Full says that the relay publishes nothing, because there may be no more.
	Full bool `json:"full"`
}

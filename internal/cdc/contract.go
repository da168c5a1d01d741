package cdc

import "context"

// Queue is where a source puts its batches, bounded by events and by bytes.
type Queue interface {
	// Offer takes b, or returns false at once when there is no room.
	Offer(b *Batch) bool
	// Space is signalled after room was made for a refused batch.
	Space() <-chan struct{}
}

// Loader returns the stored checkpoint, and false where there is none.
type Loader = func(context.Context) (Checkpoint, bool, error)

// Policy says what becomes of an event that cannot be published.
type Policy string

// The policies.
const (
	// PolicyStop ends the run in front of the event and names it.
	PolicyStop Policy = "stop"
	// PolicyDrop counts the event, logs it without its payload and goes on.
	PolicyDrop Policy = "drop"
)

// Conflict says what to do when the slot is ahead of the checkpoint.
type Conflict string

// The choices.
const (
	// ConflictStop ends the run: a person must say which of the two is right.
	ConflictStop Conflict = "stop"
	// ConflictSlot goes on from the slot.
	ConflictSlot Conflict = "slot"
)

// Flavor is the kind of a server of the MySQL family.
type Flavor string

// The flavors.
const (
	MySQL   Flavor = "mysql"
	MariaDB Flavor = "mariadb"
)

// Title is the product's name.
func (f Flavor) Title() string {
	if f == MariaDB {
		return "MariaDB"
	}
	return "MySQL"
}

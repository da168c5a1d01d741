package cdc

import (
	"errors"
	"time"
)

// Partition is a partition of an outbox table, or a table that was one.
type Partition struct {
	Name string
	// Since and Until are the bounds of created_at. A default partition has none; Until is when it was taken out.
	Since, Until time.Time
	// Default is whether it holds what no other partition takes.
	Default bool
	// Out is whether it was taken out: nothing is inserted any more.
	Out bool
	// Foreign is whether it is a partition that neither setup nor the relay made: it is left alone.
	Foreign bool
	// Relayed is whether everything in a partition that was taken out is published and its position saved.
	Relayed bool
	// Kept is why it cannot be known whether it is relayed; nil if it can.
	Kept error
}

var (
	// ErrBusy says that a lock was not free within the short time for which a writer may wait behind us.
	ErrBusy = errors.New("a lock is not free")
	// ErrHeld says that the database keeps rows: a foreign key refers to them, or a trigger keeps them.
	ErrHeld = errors.New("the database keeps the rows")
	// ErrMayNot says that the role lacks a right to delete or mark rows.
	ErrMayNot = errors.New("may not")
)

// RestoredPartition is the error of a partition that was detached from a table whose position may be another server's.
func RestoredPartition(name string) error {
	return Fixable("publish what consumers miss of it, and drop it", "%s was detached in a database that was dumped and restored since, or its comment was edited", name)
}

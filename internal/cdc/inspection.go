package cdc

// Inspection is what is stored of a relay, and where one that starts now would go on.
type Inspection struct {
	// Source is what the connection leads to.
	Source Source
	// Checkpoint is what is stored, Found whether anything is, LoadErr why that is not known or not continued from.
	Checkpoint Checkpoint
	Found      bool
	LoadErr    error
	// From is where a run that starts now would go on; Refused is why it would not.
	From    Position
	Refused error
}

// Known reports whether what is stored could be read.
func (in *Inspection) Known() bool { return in.LoadErr == nil || in.Found }

// Move is a change of position by hand.
type Move struct {
	To Position
	// Skips is how much is passed over: its events are never published. Repeats is how much is read again: its events are published twice.
	// PostgreSQL counts bytes of WAL, and one of them is 0. MySQL and MariaDB count transactions, and both may be more than 0: a set need
	// not grow at one end. On MariaDB they are the numbers between two GTIDs of a domain.
	Skips, Repeats uint64
	// KeepsCommit is whether the last commit of which rows are published is before the new position.
	KeepsCommit bool
	// Slot is whether the slot must be moved too.
	Slot bool
}

package cdctest

import (
	"context"
)

// Database is a source of the relay with an outbox table and all that the relay needs in it, as the suite
// sees it: the writers, the faults and the checkers know no more of a database than this.
type Database interface {
	// Name is the database's; it names what the relay owns there too.
	Name() string
	// Config is the value of the relay's setting source.
	Config() map[string]any
	// RecordSource is ce_source of its records.
	RecordSource() string
	// Checkpoints are where a relay of it can keep its position, the least demanding one first. With SlotOnly
	// among them the database keeps one itself; without it setup must store the first.
	Checkpoints() []Checkpoint
	// Connect opens a session for one writer.
	Connect(ctx context.Context) (Session, error)
	// Away says whether err means that the server is down or our session was ended: try again later.
	Away(err error) bool
	// Committed calls yield for each row of the outbox table, in no order, until it fails. The event is
	// yield's only during the call.
	Committed(ctx context.Context, yield func(*Event) error) error
	// Stop stops the server; Start starts it on the same data and address.
	Stop(ctx context.Context, how Stop) error
	Start(ctx context.Context) error
	// InsertMany writes n events of a hundred keys in one statement; their payloads have about size bytes.
	InsertMany(ctx context.Context, prefix string, n, size int) error
	// LoseLog takes from the relay what it needs to go on where it was: the slot, or binlogs it has not
	// read. The relay must be stopped.
	LoseLog(ctx context.Context) error
}

// Stop is a way to stop a server.
type Stop string

// The ways.
const (
	Crash    Stop = "crash"    // At once; it recovers at the next start.
	Shutdown Stop = "shutdown" // In order, without waiting for clients to leave.
)

// Session is one writer's connection. An error of any method ends the session's use, but for Rollback.
type Session interface {
	Begin(ctx context.Context) error
	// Reserve returns the first of n seqs for key and holds the key until the transaction ends, so that
	// seqs follow the order of commit. Keys must be reserved in ascending order.
	Reserve(ctx context.Context, key string, n int) (first int, err error)
	// Insert adds rows to the outbox in the open transaction.
	Insert(ctx context.Context, events []*Event) error
	Savepoint(ctx context.Context) error
	// RollbackToSavepoint takes back what came after the last Savepoint, the reserved seqs too.
	RollbackToSavepoint(ctx context.Context) error
	// Commit leaves open whether the transaction was committed when it fails.
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
	Close()
}

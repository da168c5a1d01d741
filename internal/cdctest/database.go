package cdctest

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// Database is a database with an outbox table and everything that a relay needs in it. Writers, faults and checkers use a
// database only through it.
type Database interface {
	// Name returns the name of the database and of the relay's objects in it.
	Name() string
	// Config returns the value of the relay's setting source.
	Config() map[string]any
	// RecordSource returns ce_source of its records.
	RecordSource() string
	// Checkpoints returns where a relay can store its position, the simplest place first. If SlotOnly is not among them,
	// setup must store the first position.
	Checkpoints() []Checkpoint
	// Table returns the name of the outbox table.
	Table() outbox.Name
	// ThroughProxy leads the connections of a relay that is still to be made through a proxy.
	ThroughProxy(tb testing.TB) *testenv.ProxyServer
	// Connect opens a session for one writer.
	Connect(ctx context.Context) (Session, error)
	// Away reports whether err means that the server is down or has ended the session, so that a retry may succeed.
	Away(err error) bool
	// Committed calls yield for each row of the outbox table, in any order, until yield fails. yield must not retain the
	// event.
	Committed(ctx context.Context, yield func(*Event) error) error
	// Stop stops the server; Start starts it on the same data and address.
	Stop(ctx context.Context, how Stop) error
	Start(ctx context.Context) error
	// Exec runs a statement, and Query a query that returns one row, which it scans into dest.
	Exec(ctx context.Context, sql string, args ...any) error
	Query(ctx context.Context, dest []any, sql string, args ...any) error
	// InsertMany inserts n events of a hundred keys, with payloads of about size bytes, in one statement.
	InsertMany(ctx context.Context, prefix string, n, size int) error
	// CutLeader ends the server's session that holds the slot or the lock, if there is one.
	CutLeader(ctx context.Context) error
	// LoseLog drops the slot, or purges binlogs that the relay has not read. The relay must be stopped.
	LoseLog(ctx context.Context) error
}

// Stop is a way to stop a server.
type Stop string

// The ways to stop a server.
const (
	Crash    Stop = "crash"    // at once; recovers at the next start
	Shutdown Stop = "shutdown" // cleanly, without waiting for clients
)

// Session is one writer's connection. After an error, only Rollback and Close may be called.
type Session interface {
	Begin(ctx context.Context) error
	// Reserve returns the first of n seqs for key and locks the key until the transaction ends, so that seqs follow commit
	// order. Keys must be reserved in ascending order.
	Reserve(ctx context.Context, key string, n int) (first int, err error)
	// Insert adds rows to the outbox in the open transaction.
	Insert(ctx context.Context, events []*Event) error
	Savepoint(ctx context.Context) error
	// RollbackToSavepoint rolls back everything after the last Savepoint, including reserved seqs.
	RollbackToSavepoint(ctx context.Context) error
	// Commit commits. If it fails, the transaction may have been committed.
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
	Close()
}

// Looker is a session that looks for rows. The sessions of Postgres and MySQL are.
type Looker interface {
	Session
	// Sees reports whether a new statement sees the row of an event. Call it outside a transaction.
	Sees(ctx context.Context, event uuid.UUID) (bool, error)
}

// Package conformance is what every source does alike, whatever its SQL is. Each function with a *testing.T is a test, which the
// packages of the sources run on every server that they support. What only one database does is tested there.
package conformance

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cleanup"
	"github.com/cdc-relay/cdc-relay/internal/relay"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// Database is a database for one test. Its methods fail the test on an error.
type Database interface {
	// Exec runs statements in one session.
	Exec(statements ...string)
	// Hold runs statements in a transaction of another session, which ends with end.
	Hold(statements ...string) (end func(commit bool))
	// Text returns the one value that a query selects, as text.
	Text(query string) string
	// Ago is the SQL of the time some days ago, TimeType a type for it.
	Ago(days int) string
	TimeType() string
	// Rows are those of table events, with the columns id and at, which role deletes; "": the owner. It returns what Verify says.
	Rows(role string) (cleanup.Rows, error)
}

// Outbox is a database with an outbox table, which has daily partitions for the last four days.
type Outbox interface {
	Database

	// Insert commits the events from..to, made some days ago, in one transaction. The number of each is its aggregate_id.
	Insert(daysAgo, from, to int)
	// Numbers are those of a table's events, in order, with commas.
	Numbers(table string) string
	// Partitions are those of the table, as the relay's role maintains them.
	Partitions() cleanup.Partitions
	// Save sets the position that Partitions and Rows take for the relay's, Relayed to the end of the WAL or binlog.
	Save(c cdc.Checkpoint)
	Relayed()
	// Restore leaves a table that was taken out as a dump does that is restored.
	Restore(table string)
	// Reader reads the table, and what was taken out of it, by SQL.
	Reader() tableread.Table
	// ReaderOf reads another table by SQL.
	ReaderOf(table string, o tableread.ReadOptions) tableread.Table
	// Source is a new source. Without a checkpoint it begins where the table was made.
	Source() relay.Source
	// Begin is the checkpoint at that place.
	Begin() cdc.Resumer
	// Free waits until another source can become the leader, Cut ends the leader's connection.
	Free()
	Cut()
}

// Maintain returns what one pass leaves undone.
func Maintain(t *testing.T, p cleanup.Partitions, o cleanup.PartitionOptions) error {
	t.Helper()
	open := func(context.Context) ([]cleanup.Partitions, func(), error) {
		return []cleanup.Partitions{p}, func() {}, nil
	}
	return cleanup.NewPartitioner(o, open, slog.New(slog.DiscardHandler), prometheus.NewRegistry()).Maintain(t.Context())
}

// List returns the partitions and what was taken out.
func List(t *testing.T, p cleanup.Partitions) []cdc.Partition {
	t.Helper()
	parts, _, err := p.List(t.Context())
	testenv.Must(t, err)
	return parts
}

// TakenOut are those partitions that were.
func TakenOut(t *testing.T, p cleanup.Partitions) (out []cdc.Partition) {
	t.Helper()
	for _, p := range List(t, p) {
		if p.Out {
			out = append(out, p)
		}
	}
	return out
}

// Day returns the partition of a day.
func Day(t *testing.T, p cleanup.Partitions, daysAgo int) cdc.Partition {
	t.Helper()
	at, parts := time.Now().UTC().AddDate(0, 0, -daysAgo), List(t, p)
	i := slices.IndexFunc(parts, func(p cdc.Partition) bool {
		return !p.Default && !p.Out && !p.Since.After(at) && p.Until.After(at)
	})
	if i < 0 {
		t.Fatalf("no partition of %d days ago in %v", daysAgo, parts)
	}
	return parts[i]
}

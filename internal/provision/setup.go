// Package provision creates what a relay needs, drops it, and verifies that it is there.
package provision

import (
	"context"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/source"
)

// Setup creates what a relay needs and does not find.
type Setup struct {
	// Table returns how a table is created.
	Table func(outbox.Name) outbox.TableOptions
	// Backfill says that every row is published afterwards.
	Backfill bool
	// Printf prints what is done.
	Printf source.Printf
}

// setter is a [Setup] of a database of one kind.
type setter interface {
	run(ctx context.Context, owner source.ConnString) error
	printSQL(ctx context.Context) error
	apply(ctx context.Context, owner source.ConnString) error
}

func (s *Setup) of(db source.Database) setter {
	if m, ok := db.(*source.MySQL); ok {
		return &mysqlSetup{s, m}
	}
	p, _ := db.(*source.Postgres)
	return &postgresSetup{s, p}
}

// Run creates what is missing. owner is the connection string of the tables' owner.
func (s *Setup) Run(ctx context.Context, db source.Database, owner source.ConnString) error {
	return s.of(db).run(ctx, owner)
}

// Print prints the SQL that Run would execute, by the role that must.
func (s *Setup) Print(ctx context.Context, db source.Database) error { return s.of(db).printSQL(ctx) }

// Apply creates the tables, or their missing partitions.
func (s *Setup) Apply(ctx context.Context, db source.Database, owner source.ConnString) error {
	return s.of(db).apply(ctx, owner)
}

// finish makes the topics and says how to continue.
func (s *Setup) finish(ctx context.Context, c *config.Config) error {
	if err := s.makeTopics(ctx, c); err != nil {
		return err
	}
	s.Printf("done: verify with `cdc-relay check`, then start `cdc-relay run`\n")
	return nil
}

// reportTable prints what was done with a table.
func (s *Setup) reportTable(o *outbox.TableOptions, existed bool) {
	said := "created"
	if existed {
		said = "exists"
	}
	s.Printf("table %s: %s%s\n", o.Name, said, partitionsUntil(o))
}

// reportForeign prints that a table of other software is not changed.
func (s *Setup) reportForeign(t source.Table) {
	s.Printf("table %s: unchanged, it has a columns mapping\n", t.Name)
}

// partitionsUntil says until when there are daily partitions.
func partitionsUntil(o *outbox.TableOptions) string {
	if o.Partition == outbox.PartitionNone {
		return ""
	}
	return ", with daily partitions until " + o.From.UTC().AddDate(0, 0, o.Ahead).Format(time.DateOnly)
}

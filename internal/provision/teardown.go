package provision

import (
	"context"
	"fmt"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// TeardownOptions are those of a [Teardown].
type TeardownOptions struct {
	// WithTable drops the tables, too.
	WithTable bool
	// Confirm is asked before anything is dropped. It gets what is dropped, the names of tables to drop, and what was taken out of each.
	Confirm func(what string, tables []outbox.Name, taken map[string][]string) error
	// Printf prints what is done.
	Printf app.Printf
}

// Teardown drops what [Setup] created.
type Teardown struct {
	TeardownOptions

	config *config.Config
	db     app.Database
	steps  teardownSteps
}

// teardownSteps are those that differ between the databases.
type teardownSteps interface {
	// sql is what drop executes.
	sql(tables []outbox.Name) string
	// open connects and finds what is there. An error if a relay runs is one of them.
	open(ctx context.Context, owner app.ConnString) (found, error)
	// drop drops tables and what else the relay has in the database, and prints what it did.
	drop(ctx context.Context, tables []outbox.Name) error
	close(ctx context.Context)
}

// found is what teardown finds in a database.
type found struct {
	source cdc.Source
	tables map[string]*cdc.Table
	// what is dropped beside tables, for a question.
	what string
	// names are read as whoever may see what was taken out of a table, which takenOut queries.
	names    namer
	takenOut func(outbox.Name) string
}

type namer interface {
	Names(ctx context.Context, action, query string) ([]string, error)
}

// NewTeardown returns the teardown of a database.
func NewTeardown(c *config.Config, db app.Database, o TeardownOptions) *Teardown {
	t := &Teardown{TeardownOptions: o, config: c, db: db}
	switch db := db.(type) {
	case *app.Postgres:
		t.steps = &postgresTeardown{Postgres: db, printf: o.Printf}
	case *app.MySQL:
		t.steps = &mysqlTeardown{MySQL: db}
	default:
		panic(fmt.Sprintf("provision: no teardown of a %T", db))
	}
	return t
}

// Print prints the SQL that Run would execute.
func (t *Teardown) Print() { t.Printf("%s", t.steps.sql(t.drop())) }

// Run drops what is there. owner is the connection string of the tables' owner.
func (t *Teardown) Run(ctx context.Context, owner app.ConnString) error {
	defer t.steps.close(ctx)
	there, err := t.steps.open(ctx, owner)
	if err != nil {
		return err
	}
	taken, err := t.takenOut(ctx, &there)
	if err != nil {
		return err
	}
	store, foreign, err := t.checkpoint(ctx, there.source)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	if err := t.Confirm(there.what, t.drop(), taken); err != nil {
		return err
	}
	if err := t.steps.drop(ctx, t.drop()); err != nil {
		return err
	}
	t.report(there.tables, taken)
	return t.dropCheckpoint(ctx, store, foreign)
}

// drop returns the tables to drop.
func (t *Teardown) drop() []outbox.Name {
	var drop []outbox.Name
	for _, table := range t.db.Tables() {
		if t.WithTable && !table.Foreign() {
			drop = append(drop, table.Name)
		}
	}
	return drop
}

// report prints what was done with the tables, and with what was taken out of them.
func (t *Teardown) report(before map[string]*cdc.Table, taken map[string][]string) {
	done := "kept; --drop-table drops it with all its events"
	if t.WithTable {
		done = "dropped"
	}
	for _, table := range t.db.Tables() {
		name := table.Name.String()
		switch {
		case before[name] == nil:
			t.Printf("table %s: does not exist\n", name)
		case table.Foreign():
			t.Printf("table %s: kept, it has a columns mapping\n", name)
		default:
			t.Printf("table %s: %s\n", name, done)
		}
		for _, part := range taken[name] {
			t.Printf("table %s, detached from %s: %s\n", part, name, done)
		}
	}
}

// checkpoint opens where the position is kept. It is read before anything is dropped, so that a teardown does not end half done
// where Kafka or Redis is away. A position that a run would refuse is dropped, but not another relay's.
func (t *Teardown) checkpoint(ctx context.Context, id cdc.Source) (store *checkpoint.Places, foreign bool, err error) {
	if store, err = app.Places(ctx, t.config); err != nil {
		return nil, false, err
	}
	c, found, refused := store.Resume(ctx, id)
	if refused != nil && cdc.ClassOf(refused) != cdc.ClassPosition {
		_ = store.Close()
		return nil, false, fmt.Errorf("nothing was dropped: %w", refused)
	}
	foreign = checkpoint.Foreign(refused) != nil || found && !c.Source.Same(id)
	return store, foreign, nil //nolint:nilerr // what a run would refuse is dropped
}

// dropCheckpoint drops the checkpoint, which would not fit the next slot or setup.
func (t *Teardown) dropCheckpoint(ctx context.Context, store *checkpoint.Places, foreign bool) error {
	if l := &t.config.DeadLetter; l.On() {
		t.Printf("topics %s and %s: kept, with the dead letters that are left\n", l.Topic, l.Index())
	}
	location := store.Location() // of this delivery, whatever is found there
	if foreign {
		t.Printf("checkpoint in %s: kept, it is another relay's\n", location)
		return nil
	}
	if err := store.Reset(ctx); err != nil {
		return err
	}
	if location != "" {
		t.Printf("checkpoint in %s: dropped\n", location)
	}
	return nil
}

// takenOut returns what was taken out of each table, as far as the user may see it.
func (t *Teardown) takenOut(ctx context.Context, there *found) (map[string][]string, error) {
	taken := map[string][]string{}
	for _, table := range t.db.Tables() {
		if table.Foreign() {
			continue
		}
		names, err := there.names.Names(ctx, "read what was detached from "+table.Name.String(), there.takenOut(table.Name))
		if err != nil {
			return nil, err
		}
		taken[table.Name.String()] = names
	}
	return taken, nil
}

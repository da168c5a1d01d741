package provision

import (
	"context"
	"maps"
	"slices"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/position"
	"github.com/cdc-relay/cdc-relay/internal/source"
	"github.com/cdc-relay/cdc-relay/internal/stages"
)

// Teardown drops what [Setup] created.
type Teardown struct {
	// WithTable drops the tables, too. Confirm is asked before: it gets their names, and what was taken out of each.
	WithTable bool
	Confirm   func(tables []outbox.Name, taken map[string][]string) error
	// Printf prints what is done.
	Printf source.Printf
}

// remover is a [Teardown] of a database of one kind.
type remover interface {
	run(ctx context.Context, owner source.ConnString) error
	printTeardown()
}

func (t *Teardown) of(db source.Database) remover {
	if m, ok := db.(*source.MySQL); ok {
		return &mysqlTeardown{t, m}
	}
	p, _ := db.(*source.Postgres)
	return &postgresTeardown{t, p}
}

// Run drops it. owner is the connection string of the tables' owner.
func (t *Teardown) Run(ctx context.Context, db source.Database, owner source.ConnString) error {
	return t.of(db).run(ctx, owner)
}

// Print prints the SQL that Run would execute.
func (t *Teardown) Print(db source.Database) { t.of(db).printTeardown() }

// reportTakenOut prints what was done with what was taken out.
func (t *Teardown) reportTakenOut(taken map[string][]string) {
	said := "kept; --table drops it with all its events"
	if t.WithTable {
		said = "dropped"
	}
	for _, table := range slices.Sorted(maps.Keys(taken)) {
		for _, part := range taken[table] {
			t.Printf("table %s, taken out of %s: %s\n", part, table, said)
		}
	}
}

func droppedOrMissing(there bool) string {
	if there {
		return "dropped"
	}
	return "does not exist"
}

// drop returns the tables to drop.
func (t *Teardown) drop(tables []source.Table) []outbox.Name {
	var drop []outbox.Name
	for _, table := range tables {
		if t.WithTable && !table.Foreign() {
			drop = append(drop, table.Name)
		}
	}
	return drop
}

// reportTables prints what was done with the tables.
func (t *Teardown) reportTables(tables []source.Table, before map[string]*cdc.Table) {
	for _, table := range tables {
		there := before[table.Name.String()] != nil
		said := droppedOrMissing(there)
		switch {
		case there && table.Foreign():
			said = "kept, it has a columns mapping"
		case there && !t.WithTable:
			said = "kept; --table drops it with all its events"
		}
		t.Printf("table %s: %s\n", table.Name, said)
	}
}

// dropCheckpoint drops the checkpoint, which would not fit the next slot or setup.
func (t *Teardown) dropCheckpoint(ctx context.Context, c *config.Config, id cdc.Source) error {
	if l := &c.DeadLetter; l.On() {
		t.Printf("topics %s and %s: kept, with the dead letters that are left\n", l.Topic, l.Index())
	}
	store, err := stages.Places(ctx, c)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	location := store.Location() // of this delivery, whatever is found there
	_, _, refused := store.Resume(ctx, id)
	if position.Foreign(refused) != nil {
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
func takenOut(ctx context.Context, db namer, tables []source.Table, query func(outbox.Name) string) (map[string][]string, error) {
	taken := map[string][]string{}
	for _, t := range tables {
		if t.Foreign() {
			continue
		}
		names, err := db.Names(ctx, "read what was taken out of "+t.Name.String(), query(t.Name))
		if err != nil {
			return nil, err
		}
		taken[t.Name.String()] = names
	}
	return taken, nil
}

type namer interface {
	Names(ctx context.Context, action, query string) ([]string, error)
}

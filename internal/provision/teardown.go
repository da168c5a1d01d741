package provision

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// Teardown drops what [Setup] created.
type Teardown interface {
	// Run drops what is there. owner is the connection string of the tables' owner.
	Run(ctx context.Context, owner app.ConnString) error
	// Print prints the SQL that Run would execute.
	Print()
}

// TeardownOptions are those of a [Teardown].
type TeardownOptions struct {
	// WithTable drops the tables, too.
	WithTable bool
	// Confirm is asked before anything is dropped. It gets what is dropped, the names of tables to drop, and what was taken out of each.
	Confirm func(what string, tables []outbox.Name, taken map[string][]string) error
	// Printf prints what is done.
	Printf app.Printf
}

// NewTeardown returns the teardown of a database.
func NewTeardown(db app.Database, o TeardownOptions) (t Teardown) {
	db.Visit(func(p *app.Postgres) { t = &postgresTeardown{o, p} }, func(m *app.MySQL) { t = &mysqlTeardown{o, m} })
	return t
}

// reportTakenOut prints what was done with what was taken out.
func (t *TeardownOptions) reportTakenOut(taken map[string][]string) {
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
func (t *TeardownOptions) drop(tables []app.Table) []outbox.Name {
	var drop []outbox.Name
	for _, table := range tables {
		if t.WithTable && !table.Foreign() {
			drop = append(drop, table.Name)
		}
	}
	return drop
}

// reportTables prints what was done with the tables.
func (t *TeardownOptions) reportTables(tables []app.Table, before map[string]*cdc.Table) {
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

// checkpoint opens where the position is kept. It is read before anything is dropped, so that a teardown does not end half done
// where Kafka or Redis is away. A position that a run would refuse is dropped, but not another relay's.
func (t *TeardownOptions) checkpoint(ctx context.Context, c *config.Config, id cdc.Source) (store *checkpoint.Places, foreign bool, err error) {
	if store, err = app.Places(ctx, c); err != nil {
		return nil, false, err
	}
	_, _, refused := store.Resume(ctx, id)
	if stop, ok := errors.AsType[*cdc.StopError](refused); refused != nil && (!ok || stop.Class != cdc.ClassPosition) {
		_ = store.Close()
		return nil, false, fmt.Errorf("nothing was dropped: %w", refused)
	}
	return store, checkpoint.Foreign(refused) != nil, nil
}

// dropCheckpoint drops the checkpoint, which would not fit the next slot or setup.
func (t *TeardownOptions) dropCheckpoint(ctx context.Context, c *config.Config, store *checkpoint.Places, foreign bool) error {
	if l := &c.DeadLetter; l.On() {
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
func takenOut(ctx context.Context, db namer, tables []app.Table, query func(outbox.Name) string) (map[string][]string, error) {
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

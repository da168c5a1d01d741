package main

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/position"
	"github.com/cdc-relay/cdc-relay/internal/source"
	"github.com/cdc-relay/cdc-relay/internal/stages"
)

func newTeardownCommand(a *app) *cobra.Command {
	var (
		owner  ownerFlag
		sql    bool
		action = teardown{app: a}
	)
	cmd := &cobra.Command{
		Use:   "teardown",
		Short: "Remove slot, publication and checkpoint",
		Long: `Remove what setup created: on PostgreSQL the replication slot and the publication, and on every database the stored
checkpoint. Events that are not published yet stay in the table and are not published.

Run it whenever a relay is retired: for a slot without a reader PostgreSQL keeps all WAL, until the disk is full and
the database stops.

Topics are kept, those of positions and of dead letters too. The table is kept unless --table is given; then it is dropped with all its events, and what was taken out of it for its
age, after you type its name. Stop the relay first: a slot or a checkpoint file that is in use is not removed. If the checkpoint is in Redis, a relay that
still runs can no longer save and ends with exit code 4.

` + ownerHelp,
		Example: "  cdc-relay teardown\n  cdc-relay teardown --table\n  cdc-relay teardown --print",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, err := a.database()
			if err != nil {
				return err
			}
			if sql {
				action.on(db).printTeardown()
				return nil
			}
			dsn, err := owner.dsn(a, db)
			if err != nil {
				return err
			}
			return action.on(db).run(cmd.Context(), dsn)
		},
	}
	owner.add(cmd)
	cmd.Flags().BoolVar(&action.withTable, "table", false, "drop the outbox table too, with all its events")
	cmd.Flags().BoolVar(&action.sure, "yes", false, "do not ask before the table is dropped")
	cmd.Flags().BoolVar(&sql, "print", false, "print the SQL instead of running it")
	return cmd
}

// teardown is one run of the command.
type teardown struct {
	app             *app
	withTable, sure bool
}

// remover is a run of the command on a database of one kind.
type remover interface {
	run(ctx context.Context, owner source.ConnString) error
	printTeardown()
}

func (t *teardown) on(db source.Database) remover {
	if m, ok := db.(*source.MySQL); ok {
		return &mysqlTeardown{t, m}
	}
	p, _ := db.(*source.Postgres)
	return &postgresTeardown{t, p}
}

// confirm asks the user to type the names of the tables. taken lists what was taken out of each.
func (t *teardown) confirm(tables []outbox.Name, taken map[string][]string) error {
	if t.sure {
		return nil
	}
	in := bufio.NewReader(t.app.stdin)
	for _, name := range tables {
		_, _ = fmt.Fprintf(t.app.stderr, "This drops %s with all its events%s. Type the table's name to go on: ", name, takenOut(taken[name.String()]))
		typed, _ := in.ReadString('\n') // the end of the input is a no
		if typed = strings.TrimSpace(typed); typed != name.String() && typed != name.Table {
			_, _ = fmt.Fprintln(t.app.stderr)
			return cdc.Usage(fmt.Sprintf("type %s, or give --yes", name), "the table's name was not typed, and nothing was dropped")
		}
	}
	return nil
}

// takenOut says which tables go with a table.
func takenOut(parts []string) string {
	if len(parts) == 0 {
		return ""
	}
	return ", also those of days that were taken out of it (" + strings.Join(parts, ", ") + ")"
}

// reportTakenOut prints what was done with what was taken out.
func (t *teardown) reportTakenOut(taken map[string][]string) {
	said := "kept; --table drops it with all its events"
	if t.withTable {
		said = "dropped"
	}
	for _, table := range slices.Sorted(maps.Keys(taken)) {
		for _, part := range taken[table] {
			t.app.printf("table %s, taken out of %s: %s\n", part, table, said)
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
func (t *teardown) drop(tables []source.Table) []outbox.Name {
	var drop []outbox.Name
	for _, table := range tables {
		if t.withTable && !table.Foreign() {
			drop = append(drop, table.Name)
		}
	}
	return drop
}

// reportTables prints what was done with the tables.
func (t *teardown) reportTables(tables []source.Table, before map[string]*cdc.Table) {
	for _, table := range tables {
		there := before[table.Name.String()] != nil
		said := droppedOrMissing(there)
		switch {
		case there && table.Foreign():
			said = "kept, it has a columns mapping"
		case there && !t.withTable:
			said = "kept; --table drops it with all its events"
		}
		t.app.printf("table %s: %s\n", table.Name, said)
	}
}

// dropCheckpoint drops the checkpoint, which would not fit the next slot or setup.
func (t *teardown) dropCheckpoint(ctx context.Context, c *config.Config, id cdc.Source) error {
	if l := &c.DeadLetter; l.On() {
		t.app.printf("topics %s and %s: kept, with the dead letters that are left\n", l.Topic, l.Index())
	}
	store, err := stages.Places(ctx, c)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	_, _, refused := store.Resume(ctx, id)
	if position.Foreign(refused) != nil {
		t.app.printf("checkpoint in %s: kept, it is another relay's\n", stages.PositionOptions(c).Location())
		return nil
	}
	if err := store.Reset(ctx); err != nil {
		return err
	}
	if location := stages.PositionOptions(c).Location(); location != "" {
		t.app.printf("checkpoint in %s: dropped\n", location)
	}
	return nil
}

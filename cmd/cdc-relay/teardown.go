package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/wal"
)

func newTeardownCommand(a *app) *cobra.Command {
	var (
		owner  ownerFlag
		sql    bool
		action teardown
	)
	cmd := &cobra.Command{
		Use:   "teardown",
		Short: "Take the slot, the publication and the checkpoint away",
		Long: `Take away what setup made: the replication slot first, then the publication and the stored checkpoint, which
is of no use without its slot. Events that were not relayed yet stay in the table and are not published.

Do this whenever a relay is retired: a slot that nobody reads makes PostgreSQL keep all WAL from then on,
until the disk is full and the database stops.

The table is kept unless --table is given, and is then dropped with all its events once its name was typed.
Stop the relay first: a slot that is being read is not dropped.

` + ownerHelp,
		Example: "  cdc-relay teardown\n  cdc-relay teardown --table\n  cdc-relay teardown --print",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load()
			if err != nil {
				return err
			}
			if err := action.prepare(a, c); err != nil {
				return err
			}
			if sql {
				a.printf("%s", outbox.PostgresTeardown(action.options()))
				return nil
			}
			return action.run(cmd.Context(), owner.dsn(a, c))
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
	config          *config.Config
	wal             wal.Options
	tables          []outboxTable
	withTable, sure bool
}

func (t *teardown) prepare(a *app, c *config.Config) (err error) {
	t.app, t.config = a, c
	if t.wal, err = walOptions(c); err != nil {
		return err
	}
	t.tables, err = outboxTables(c)
	return err
}

func (t *teardown) options() outbox.TeardownOptions {
	o := outbox.TeardownOptions{Publication: t.wal.Publication, Slot: t.wal.Slot}
	for _, table := range t.tables {
		if t.withTable && !table.foreign {
			o.Drop = append(o.Drop, table.name)
		}
	}
	return o
}

func (t *teardown) run(ctx context.Context, ownerDSN func() (string, error)) error {
	db, err := wal.OpenDatabase(ctx, t.wal.DSN)
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	before, err := db.Survey(ctx, t.wal)
	if err != nil {
		return err
	}
	if err := t.idle(before.Slot); err != nil {
		return err
	}
	o := t.options()
	if err := t.confirm(o.Drop); err != nil {
		return err
	}
	steps := outbox.PostgresTeardown(o)
	if err := db.Exec(ctx, fmt.Sprintf("drop slot %q", t.wal.Slot), texts(statementsFor(steps, outbox.RunnerRelay))...); err != nil {
		return err
	}
	t.saySlot(before.Slot)
	if err := t.dropObjects(ctx, ownerDSN, before, statementsFor(steps, outbox.RunnerOwner)); err != nil {
		return err
	}
	return t.forget(ctx)
}

// idle refuses to pull the slot from under a relay.
func (t *teardown) idle(slot *wal.SlotInfo) error {
	if slot == nil || slot.ActivePID == 0 {
		return nil
	}
	return cdc.Stop(cdc.ClassRuntime, "slot_active", fmt.Errorf(
		"slot %q is being read (PID %d on the server): stop its relay first, then try again; nothing was dropped", t.wal.Slot, slot.ActivePID))
}

// confirm has the names of the tables typed.
func (t *teardown) confirm(tables []outbox.Name) error {
	if t.sure {
		return nil
	}
	in := bufio.NewReader(t.app.stdin)
	for _, name := range tables {
		_, _ = fmt.Fprintf(t.app.stderr, "This drops %s with all its events. Type the table's name to go on: ", name)
		typed, _ := in.ReadString('\n') // the end of the input is a no
		if typed = strings.TrimSpace(typed); typed != name.String() && typed != name.Table {
			_, _ = fmt.Fprintln(t.app.stderr)
			return usage("the table's name was not typed: nothing was dropped; type %s, or give --yes", name)
		}
	}
	return nil
}

func (t *teardown) saySlot(slot *wal.SlotInfo) {
	if slot == nil {
		t.app.printf("slot %s: does not exist\n", t.wal.Slot)
		return
	}
	t.app.printf("slot %s: dropped at %s; PostgreSQL keeps no more WAL for it (it kept %s)\n", t.wal.Slot, slot.Confirmed, byteSize(slot.RetainedBytes))
}

func (t *teardown) dropObjects(ctx context.Context, ownerDSN func() (string, error), before wal.Survey, statements []outbox.Statement) error {
	if before.Publication || len(t.options().Drop) > 0 {
		owner, err := wal.OpenDatabase(ctx, ownerDSN)
		if err != nil {
			return err
		}
		defer owner.Close(ctx)
		if err := owner.Exec(ctx, fmt.Sprintf("drop publication %q", t.wal.Publication), texts(statements)...); err != nil {
			return err
		}
	}
	t.app.printf("publication %s: %s\n", t.wal.Publication, droppedOrMissing(before.Publication))
	for _, table := range t.tables {
		there := before.Tables[table.name.String()] != nil
		said := droppedOrMissing(there)
		switch {
		case there && table.foreign:
			said = "kept, it has a columns mapping"
		case there && !t.withTable:
			said = "kept; --table drops it with all its events"
		}
		t.app.printf("table %s: %s\n", table.name, said)
	}
	return nil
}

func droppedOrMissing(there bool) string {
	if there {
		return "dropped"
	}
	return "does not exist"
}

// forget drops the checkpoint: to the next slot it would be one of another history.
func (t *teardown) forget(ctx context.Context) error {
	store, err := newStore(t.config)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	if err := store.Reset(ctx); err != nil {
		return err
	}
	if place := storePlace(t.config); place != "" {
		t.app.printf("checkpoint in %s: dropped\n", place)
	}
	return nil
}

package main

import (
	"context"
	"fmt"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// postgresTeardown is one run of teardown on PostgreSQL.
type postgresTeardown struct {
	*teardown
	*postgresCommands
}

func (p *postgresCommands) teardown(ctx context.Context, t *teardown, owner connString) error {
	return (&postgresTeardown{t, p}).run(ctx, owner)
}

func (p *postgresCommands) printTeardown(t *teardown) {
	t.app.printf("%s", outbox.PostgresTeardown((&postgresTeardown{t, p}).options()))
}

func (t *postgresTeardown) options() outbox.TeardownOptions {
	return outbox.TeardownOptions{Publication: t.wal.Publication, Slot: t.wal.Slot, Drop: t.drop(t.list)}
}

func (t *postgresTeardown) run(ctx context.Context, ownerDSN connString) error {
	db, err := postgres.OpenDatabase(ctx, t.wal.Options)
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	before, err := db.Survey(ctx, t.wal.Options)
	if err != nil {
		return err
	}
	if err := t.idle(before.Slot); err != nil {
		return err
	}
	taken, err := t.takenOut(ctx, db)
	if err != nil {
		return err
	}
	o := t.options()
	if err := t.confirm(o.Drop, taken); err != nil {
		return err
	}
	steps := outbox.PostgresTeardown(o)
	if err := db.Exec(ctx, fmt.Sprintf("drop slot %q", t.wal.Slot), texts(statementsFor(steps, outbox.RunnerRelay))...); err != nil {
		return err
	}
	t.reportSlot(before.Slot)
	if err := t.dropObjects(ctx, ownerDSN, before, statementsFor(steps, outbox.RunnerOwner)); err != nil {
		return err
	}
	t.reportTakenOut(taken)
	id, err := db.Source(ctx, t.wal.Slot)
	if err != nil {
		return err
	}
	return t.dropCheckpoint(ctx, t.config, id)
}

// takenOut returns what was taken out of each table.
func (t *postgresTeardown) takenOut(ctx context.Context, db *postgres.Database) (map[string][]string, error) {
	taken := map[string][]string{}
	for _, table := range t.list {
		if table.foreign() {
			continue
		}
		names, err := db.Names(ctx, "read what was taken out of "+table.name.String(), outbox.PostgresTakenOut(table.name))
		if err != nil {
			return nil, err
		}
		taken[table.name.String()] = names
	}
	return taken, nil
}

// idle returns an error if a relay is using the slot.
func (t *postgresTeardown) idle(slot *postgres.SlotInfo) error {
	if slot == nil || slot.ActivePID == 0 {
		return nil
	}
	return cdc.Stop(cdc.ClassRuntime, "slot_active", fmt.Errorf(
		"slot %q is being read (PID %d on the server), and nothing was dropped", t.wal.Slot, slot.ActivePID), "stop its relay first, then try again")
}

func (t *postgresTeardown) reportSlot(slot *postgres.SlotInfo) {
	if slot == nil {
		t.app.printf("slot %s: does not exist\n", t.wal.Slot)
		return
	}
	t.app.printf("slot %s: dropped at %s; PostgreSQL keeps no more WAL for it (it kept %s)\n", t.wal.Slot, slot.Confirmed, display.Bytes(slot.RetainedBytes))
}

func (t *postgresTeardown) dropObjects(ctx context.Context, ownerDSN connString, before postgres.Survey, statements []outbox.Statement) error {
	if before.Publication || len(t.options().Drop) > 0 {
		owner, err := t.open(ctx, ownerDSN)
		if err != nil {
			return err
		}
		defer owner.Close(ctx)
		if err := owner.Exec(ctx, fmt.Sprintf("drop publication %q", t.wal.Publication), texts(statements)...); err != nil {
			return err
		}
	}
	t.app.printf("publication %s: %s\n", t.wal.Publication, droppedOrMissing(before.Publication))
	t.reportTables(t.list, before.Tables)
	return nil
}

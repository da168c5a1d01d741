package provision

import (
	"context"
	"fmt"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// postgresTeardown is one run of teardown on PostgreSQL.
type postgresTeardown struct {
	TeardownOptions
	*app.Postgres
}

func (t *postgresTeardown) Print() {
	t.Printf("%s", outbox.PostgresTeardown(t.options()))
}

func (t *postgresTeardown) options() outbox.TeardownOptions {
	return outbox.TeardownOptions{Publication: t.WAL.Publication, Slot: t.WAL.Slot, Drop: t.drop(t.Tables())}
}

func (t *postgresTeardown) Run(ctx context.Context, ownerDSN app.ConnString) error {
	db, err := postgres.OpenDatabase(ctx, t.WAL.Options)
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	before, err := db.Survey(ctx, t.WAL.Options)
	if err != nil {
		return err
	}
	if err := t.idle(before.Slot); err != nil {
		return err
	}
	taken, err := takenOut(ctx, db, t.Tables(), outbox.PostgresTakenOut)
	if err != nil {
		return err
	}
	id, err := db.Source(ctx, t.WAL.Slot)
	if err != nil {
		return err
	}
	store, foreign, err := t.checkpoint(ctx, t.Config, id)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	o := t.options()
	if err := t.Confirm(fmt.Sprintf("slot %s, publication %s and the checkpoint", t.WAL.Slot, t.WAL.Publication), o.Drop, taken); err != nil {
		return err
	}
	steps := outbox.PostgresTeardown(o)
	// The publication first: its owner's rights are what is most likely missing, and until then nothing is dropped.
	if err := t.dropObjects(ctx, ownerDSN, before, statementsFor(steps, outbox.RunnerOwner)); err != nil {
		return err
	}
	if err := db.Exec(ctx, fmt.Sprintf("drop slot %q", t.WAL.Slot), outbox.Texts(statementsFor(steps, outbox.RunnerRelay))...); err != nil {
		return err
	}
	t.reportSlot(before.Slot)
	if left, err := db.Slot(ctx, postgres.RepairSlot(t.WAL.Slot)); err == nil && left != nil {
		t.Printf("slot %s: kept, a repair or backfill runs or was interrupted; %s\n", postgres.RepairSlot(t.WAL.Slot), postgres.FixLeftSlot(t.WAL.Slot))
	}
	t.reportTakenOut(taken)
	return t.dropCheckpoint(ctx, t.Config, store, foreign)
}

// idle returns an error if a relay is using the slot.
func (t *postgresTeardown) idle(slot *postgres.SlotInfo) error {
	if slot == nil || slot.ActivePID == 0 {
		return nil
	}
	return cdc.Stop(cdc.ClassRuntime, "slot_active", fmt.Errorf(
		"slot %q is being read (PID %d on the server), and nothing was dropped", t.WAL.Slot, slot.ActivePID), "stop its relay first, then try again")
}

func (t *postgresTeardown) reportSlot(slot *postgres.SlotInfo) {
	if slot == nil {
		t.Printf("slot %s: does not exist\n", t.WAL.Slot)
		return
	}
	t.Printf("slot %s: dropped at %s; PostgreSQL keeps no more WAL for it (it kept %s)\n", t.WAL.Slot, slot.Confirmed, display.Bytes(slot.RetainedBytes))
}

func (t *postgresTeardown) dropObjects(ctx context.Context, ownerDSN app.ConnString, before postgres.Survey, statements []outbox.Statement) error {
	if before.Publication || len(t.options().Drop) > 0 {
		owner, err := t.Open(ctx, ownerDSN)
		if err != nil {
			return err
		}
		defer owner.Close(ctx)
		if err := owner.Exec(ctx, fmt.Sprintf("drop publication %q", t.WAL.Publication), outbox.Texts(statements)...); err != nil {
			return err
		}
	}
	t.Printf("publication %s: %s\n", t.WAL.Publication, droppedOrMissing(before.Publication))
	t.reportTables(t.Tables(), before.Tables)
	return nil
}

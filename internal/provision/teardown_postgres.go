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

// postgresTeardown drops the tables, the publication and the slot.
type postgresTeardown struct {
	*app.Postgres

	printf app.Printf
	db     *postgres.Database
	before postgres.Survey
	owner  app.ConnString
}

func (t *postgresTeardown) sql(tables []outbox.Name) string { return t.script(tables).String() }

func (t *postgresTeardown) script(tables []outbox.Name) outbox.Steps {
	return outbox.PostgresTeardown(t.WAL.Publication, t.WAL.Slot, tables)
}

func (t *postgresTeardown) open(ctx context.Context, owner app.ConnString) (there found, err error) {
	t.owner = owner
	if t.db, err = postgres.OpenDatabase(ctx, t.WAL.Options); err != nil {
		return there, err
	}
	if t.before, err = t.db.Survey(ctx, t.WAL.Options); err != nil {
		return there, err
	}
	if slot := t.before.Slot; slot != nil && slot.Database != t.db.Server.Database { // "" is that of a physical one
		return there, slot.Problem
	}
	if err := t.idle(ctx); err != nil {
		return there, err
	}
	id, err := t.db.Source(ctx, t.WAL.Slot)
	what := fmt.Sprintf("slot %s, publication %s and the checkpoint", t.WAL.Slot, t.WAL.Publication)
	return found{id, t.before.Tables, what, t.db, outbox.PostgresTakenOut}, err
}

// idle returns an error while a relay reads the slot.
func (t *postgresTeardown) idle(ctx context.Context) error {
	slot, err := t.db.Slot(ctx, t.WAL.Slot)
	if err != nil || slot == nil || slot.ActivePID == 0 {
		return err
	}
	return cdc.Stop(cdc.ClassRuntime, "slot_active", fmt.Errorf(
		"slot %q is being read (PID %d on the server), and nothing was dropped", t.WAL.Slot, slot.ActivePID), "stop its relay first, then try again")
}

func (t *postgresTeardown) close(ctx context.Context) {
	if t.db != nil {
		t.db.Close(ctx)
	}
}

// drop drops the publication first: its owner's rights are what is most likely missing, and until then nothing is dropped. A relay may
// have started while the question was open.
func (t *postgresTeardown) drop(ctx context.Context, tables []outbox.Name) error {
	if err := t.idle(ctx); err != nil {
		return err
	}
	steps := t.script(tables)
	publication := "does not exist"
	if t.before.Publication {
		publication = "dropped"
	}
	if t.before.Publication || len(tables) > 0 {
		owner, err := t.Open(ctx, t.owner)
		if err != nil {
			return err
		}
		defer owner.Close(ctx)
		if err := owner.Exec(ctx, fmt.Sprintf("drop publication %q", t.WAL.Publication), outbox.Texts(statementsFor(steps, outbox.RunnerOwner))...); err != nil {
			return err
		}
	}
	t.printf("publication %s: %s\n", t.WAL.Publication, publication)
	if err := t.db.Exec(ctx, fmt.Sprintf("drop slot %q", t.WAL.Slot), outbox.Texts(statementsFor(steps, outbox.RunnerRelay))...); err != nil {
		return err
	}
	if slot := t.before.Slot; slot == nil {
		t.printf("slot %s: does not exist\n", t.WAL.Slot)
	} else {
		t.printf("slot %s: dropped at %s; PostgreSQL keeps no more WAL for it (it kept %s)\n", t.WAL.Slot, slot.ConfirmedFlushLSN, display.Bytes(slot.Retained))
	}
	if left, err := t.db.Slot(ctx, postgres.RepairSlot(t.WAL.Slot)); err == nil && left != nil {
		t.printf("slot %s: kept, a repair or backfill runs or was interrupted; %s\n", postgres.RepairSlot(t.WAL.Slot), postgres.FixLeftSlot(t.WAL.Slot))
	}
	return nil
}

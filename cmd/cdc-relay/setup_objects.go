package main

import (
	"context"
	"fmt"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/wal"
)

// makeObjects makes tables and publication, as their owner and in one transaction.
func (s *setup) makeObjects(ctx context.Context, db *wal.Database, ownerDSN func() (string, error), before wal.Survey) error {
	if err := s.feasible(before); err != nil {
		return err
	}
	if before.Problem != nil {
		owner, err := wal.OpenDatabase(ctx, ownerDSN)
		if err != nil {
			return err
		}
		defer owner.Close(ctx)
		if err := s.execOwner(ctx, owner, db.Server.Role, before); err != nil {
			return err
		}
	}
	after, err := db.Survey(ctx, s.wal)
	if err != nil {
		return err
	}
	s.report(before, after)
	return after.Problem
}

// feasible refuses what setup cannot mend.
func (s *setup) feasible(before wal.Survey) error {
	for _, t := range s.tables {
		if t.foreign && before.Tables[t.name.String()] == nil {
			return cdc.Stop(cdc.ClassConfig, "table_missing", fmt.Errorf(
				"table %s does not exist, and setup makes no table that has a columns mapping: mend tables[].name, or have its software make it", t.name))
		}
	}
	if before.Slot != nil && before.Slot.Problem != nil {
		return before.Slot.Problem
	}
	if before.Slot != nil && !before.Publication {
		return cdc.Stop(cdc.ClassPosition, "slot_too_old", fmt.Errorf(
			"slot %q exists and publication %q does not: a slot that is older than its publication cannot be read; "+
				"publish from the outbox table what consumers miss, then run `cdc-relay teardown` and `cdc-relay setup`", s.wal.Slot, s.wal.Publication))
	}
	return nil
}

// execOwner runs the owner's statements, with grants where the relay has a role of its own.
func (s *setup) execOwner(ctx context.Context, owner *wal.Database, relayRole string, before wal.Survey) error {
	if relayRole == owner.Server.Role {
		relayRole = ""
	}
	steps, err := s.steps(owner.Server.Version, relayRole, func(t outboxTable) bool { return before.Tables[t.name.String()] == nil })
	if err != nil {
		return err
	}
	if err := owner.Patient(ctx); err != nil {
		return err
	}
	return owner.Exec(ctx, fmt.Sprintf("create table and publication %q", s.wal.Publication), texts(statementsFor(steps, outbox.RunnerOwner))...)
}

func statementsFor(steps outbox.Steps, runner outbox.Runner) []outbox.Statement {
	for _, step := range steps {
		if step.Runner == runner {
			return step.Statements
		}
	}
	return nil
}

func (s *setup) report(before, after wal.Survey) {
	for _, t := range s.tables {
		said := "exists"
		if before.Tables[t.name.String()] == nil && after.Tables[t.name.String()] != nil {
			o := s.flags.table(t.name)
			said = "created" + partitionsUntil(&o)
		}
		s.app.printf("table %s: %s\n", t.name, said)
	}
	switch {
	case !before.Publication && after.Publication:
		s.app.printf("publication %s: created\n", s.wal.Publication)
	case before.Problem != nil && after.Problem == nil:
		s.app.printf("publication %s: completed\n", s.wal.Publication)
	default:
		s.app.printf("publication %s: exists\n", s.wal.Publication)
	}
}

// makeSlot makes the slot once the publication is committed.
func (s *setup) makeSlot(ctx context.Context, db *wal.Database, slot *wal.SlotInfo) error {
	if slot != nil {
		s.app.printf("slot %s: exists, stands at %s\n", s.wal.Slot, slot.Confirmed)
		return nil
	}
	if err := db.Patient(ctx); err != nil {
		return err
	}
	statement := outbox.PostgresSlot(s.wal.Slot, s.failover(db.Server.Version))
	if err := db.CreateSlot(ctx, s.wal.Slot, statement.SQL); err != nil {
		return err
	}
	slot, err := db.Slot(ctx, s.wal.Slot)
	if err != nil || slot == nil {
		return err
	}
	s.app.printf("slot %s: created at %s; from here on PostgreSQL keeps WAL until the relay has read it\n", s.wal.Slot, slot.Confirmed)
	return nil
}

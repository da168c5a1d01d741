package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// postgresSetup is one run of setup on PostgreSQL.
type postgresSetup struct {
	*Setup
	*app.Postgres

	relay  *postgres.Database // as the relay's role
	owner  app.ConnString
	before postgres.Survey
	adding []outbox.Name // tables that are yet to come to the publication that the slot reads
}

func (s *postgresSetup) open(ctx context.Context, owner app.ConnString) (err error) {
	s.owner = owner
	if s.relay, err = postgres.OpenDatabase(ctx, s.WAL.Options); err != nil {
		return err
	}
	if err := s.relay.Server.Problem(); err != nil {
		return err
	}
	s.before, err = s.relay.Survey(ctx, s.WAL.Options)
	return err
}

func (s *postgresSetup) close(ctx context.Context) {
	if s.relay != nil {
		s.relay.Close(ctx)
	}
}

// asOwner calls fn with a connection as the tables' owner.
func (s *postgresSetup) asOwner(ctx context.Context, fn func(*postgres.Database) error) error {
	owner, err := s.Open(ctx, s.owner)
	if err != nil {
		return err
	}
	defer owner.Close(ctx)
	if err := owner.Patient(ctx); err != nil {
		return err
	}
	return fn(owner)
}

// script returns the SQL, with grants for role unless it is "".
func (s *postgresSetup) script(version int, role string, missing func(app.Table) bool) outbox.Steps {
	o := s.needed(missing)
	o.Publication, o.Slot, o.Role, o.Failover = s.WAL.Publication, s.WAL.Slot, role, version >= postgres.FailoverSince
	return outbox.PostgresSetup(o)
}

// surveyTimeout limits how long --print waits for the server.
const surveyTimeout = 5 * time.Second

func (s *postgresSetup) printSQL(ctx context.Context) error {
	version := 0
	asking, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	if db, err := postgres.OpenDatabase(asking, s.WAL.Options); err == nil {
		version = db.Server.Version
		db.Close(ctx)
	}
	if version == 0 {
		s.Printf("-- The database did not answer, so its version is not known. On PostgreSQL 17 and newer add\n" +
			"-- failover => true to pg_create_logical_replication_slot: the slot then survives a standby's promotion.\n\n")
	}
	s.Printf("%s", s.script(version, s.config.Role(), every))
	return nil
}

// makeObjects creates tables and publication, as their owner and in one transaction.
func (s *postgresSetup) makeObjects(ctx context.Context) error {
	if err := s.findAdded(ctx); err != nil {
		return err
	}
	if err := s.feasible(); err != nil {
		return err
	}
	may, err := s.mayMaintain(ctx, s.relay.MayMaintain)
	if err == nil && may {
		may, err = s.mayChangeRows(ctx)
	}
	if err != nil {
		return err
	}
	if s.before.Problem != nil || !may {
		if err := s.asOwner(ctx, func(owner *postgres.Database) error { return s.execOwner(ctx, owner) }); err != nil {
			return err
		}
	}
	after, err := s.relay.Survey(ctx, s.WAL.Options)
	if err != nil {
		return err
	}
	s.report(after)
	return after.Problem
}

// findAdded returns an error if a table has rows that is yet to come to the publication that the slot reads: the WAL has them as those of a
// table that is not published.
func (s *postgresSetup) findAdded(ctx context.Context) error {
	if s.before.Slot == nil || !s.before.Publication {
		return nil
	}
	for _, t := range s.Tables() {
		if s.before.Tables[t.Name.String()] == nil {
			continue
		}
		published, err := s.relay.Publishes(ctx, s.WAL.Publication, t.Name.SQL())
		if err != nil {
			return err
		}
		if !published {
			s.adding = append(s.adding, t.Name)
		}
	}
	if len(s.adding) == 0 {
		return nil
	}
	return s.asOwner(ctx, func(owner *postgres.Database) error { return s.noneHasRows(ctx, owner) })
}

func (s *postgresSetup) noneHasRows(ctx context.Context, owner *postgres.Database) error {
	if s.Backfill || s.SkipExisting {
		return nil
	}
	for _, t := range s.adding {
		if rows, _, err := owner.HasRows(ctx, t.SQL()); err != nil {
			return err
		} else if rows {
			return cdc.PositionError(rowsExist, fmt.Sprintf("add it with `cdc-relay setup --skip-existing`, restart the relays, then publish those that consumers need, as with `cdc-relay replay --table %s --yes`; until then leave retention.keep out, which deletes older ones", t),
				"table %s has rows and is not in publication %q yet: the relay would not publish them", t, s.WAL.Publication)
		}
	}
	return nil
}

// feasible returns an error for what setup cannot fix.
func (s *postgresSetup) feasible() error {
	before := &s.before
	for _, t := range s.Tables() {
		if t.Foreign() && before.Tables[t.Name.String()] == nil {
			return cdc.Stop(cdc.ClassConfig, "table_missing", fmt.Errorf(
				"table %s does not exist, and setup creates no table that has a columns mapping", t.Name), "correct tables[].name, or have its software create it")
		}
	}
	if cdc.ReasonOf(before.Problem) == postgres.UnfitTable {
		return before.Problem
	}
	if before.Slot != nil && before.Slot.Problem != nil && before.Slot.ConfirmedFlushLSN != "" { // otherwise it is being made
		return before.Slot.Problem
	}
	if before.Slot != nil && !before.Publication {
		return cdc.Stop(cdc.ClassPosition, "slot_too_old", fmt.Errorf(
			"slot %q exists and publication %q does not, and a slot that is older than its publication cannot be read", s.WAL.Slot, s.WAL.Publication),
			"correct source.postgres.publication; if it was dropped, drop the slot too with `SELECT pg_drop_replication_slot('"+s.WAL.Slot+"')`, make the publication with `cdc-relay setup`, and publish what consumers lack, and make the slot, with `cdc-relay repair --since TIME`")
	}
	return nil
}

// execOwner runs the owner's statements, with grants where the relay has a role of its own.
func (s *postgresSetup) execOwner(ctx context.Context, owner *postgres.Database) error {
	role := s.relay.Server.Role
	if role == owner.Server.Role {
		role = ""
	}
	steps := s.script(owner.Server.Version, role, func(t app.Table) bool { return s.before.Tables[t.Name.String()] == nil })
	doing, statements := fmt.Sprintf("create table and publication %q", s.WAL.Publication), outbox.Texts(statementsFor(steps, outbox.RunnerOwner))
	if len(s.adding) == 0 {
		return owner.Exec(ctx, doing, statements...)
	}
	// What a transaction has inserted before the table is published is not sent when it is committed: none may be open.
	tables := make([]string, len(s.adding))
	for i, t := range s.adding {
		tables[i] = t.SQL()
	}
	if err := owner.Exec(ctx, doing, "BEGIN; SET LOCAL lock_timeout = '5s'; LOCK TABLE "+strings.Join(tables, ", ")+" IN SHARE ROW EXCLUSIVE MODE"); err != nil {
		return err
	}
	if err := s.noneHasRows(ctx, owner); err != nil {
		return err
	}
	return owner.Exec(ctx, doing, strings.Join(append(statements, "COMMIT"), ";\n"))
}

func statementsFor(steps outbox.Steps, runner outbox.Runner) []outbox.Statement {
	for _, step := range steps {
		if step.Runner == runner {
			return step.Statements
		}
	}
	return nil
}

func (s *postgresSetup) report(after postgres.Survey) {
	before := &s.before
	s.reportTables(func(t outbox.Name) bool { return before.Tables[t.String()] == nil && after.Tables[t.String()] != nil })
	said := "exists"
	switch {
	case !before.Publication && after.Publication:
		said = "created"
	case before.Problem != nil && after.Problem == nil:
		said = "completed"
	}
	s.Printf("publication %s: %s\n", s.WAL.Publication, said)
}

// noneUnfinished returns an error while a repair, or a backfill with a condition, has a slot of its own: what is committed between that
// and one that is made now would be in neither.
func (s *postgresSetup) noneUnfinished(ctx context.Context) error {
	left, err := s.relay.Slot(ctx, postgres.RepairSlot(s.WAL.Slot))
	if err != nil || left == nil {
		return err
	}
	return cdc.PositionError("repair_unfinished", "run the same command again if it was interrupted, or wait for its end; to give it up, "+postgres.FixLeftSlot(s.WAL.Slot),
		"a repair, or a setup with --backfill, runs or was interrupted, and has slot %q: slot %q gets its position at the end", postgres.RepairSlot(s.WAL.Slot), s.WAL.Slot)
}

// begin creates the slot, after the publication is committed.
func (s *postgresSetup) begin(ctx context.Context) error {
	slot := s.before.Slot
	if slot != nil && slot.ConfirmedFlushLSN != "" {
		s.Printf("slot %s: exists, position %s\n", s.WAL.Slot, slot.ConfirmedFlushLSN)
		return nil
	}
	if s.Backfill && slot == nil {
		return nil
	}
	if slot != nil {
		if err := s.awaitSlot(ctx, slot.ActivePID); err != nil {
			return err
		}
	} else if err := s.createSlot(ctx); err != nil {
		return err
	}
	// A slot begins behind the transactions that it waited for, and behind all that was committed meanwhile.
	if err := s.unpublished(ctx, false); err != nil {
		return errors.Join(err, s.relay.DropSlot(context.WithoutCancel(ctx), s.WAL.Slot))
	}
	slot, err := s.relay.Slot(ctx, s.WAL.Slot)
	if err != nil || slot == nil {
		return err
	}
	s.Printf("slot %s: created at %s; PostgreSQL keeps WAL from now on until the relay has read it\n", s.WAL.Slot, slot.ConfirmedFlushLSN)
	return nil
}

func (s *postgresSetup) createSlot(ctx context.Context) error {
	if err := s.noneUnfinished(ctx); err != nil {
		return err
	}
	if err := s.unpublished(ctx, s.before.Publication); err != nil {
		return err
	}
	if err := errors.Join(s.relay.Patient(ctx), s.relay.Exec(ctx, "set lock_timeout", "SET lock_timeout = 0")); err != nil { // it waits for transactions by their locks
		return err
	}
	statement := outbox.PostgresSlot(s.WAL.Slot, s.relay.Server.Version >= postgres.FailoverSince)
	return s.relay.CreateSlot(ctx, s.WAL.Slot, statement.SQL, s.waits)
}

func (s *postgresSetup) waits(who string) {
	s.Printf("slot %s: PostgreSQL waits for transactions that were open before: %s\n", s.WAL.Slot, who)
}

// awaitSlot waits until a slot that another process of the server makes has a position, and that process no longer holds it. It is that of
// a setup that was killed, or that runs.
func (s *postgresSetup) awaitSlot(ctx context.Context, maker int) error {
	waiting, cancel := context.WithTimeout(ctx, postgres.ExecTimeout)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	s.waits(s.relay.Open(ctx))
	for {
		slot, err := s.relay.Slot(ctx, s.WAL.Slot)
		switch {
		case err != nil:
			return err
		case slot == nil:
			return cdc.Fixable("run the same command again", "the process that made slot %q was ended, and the slot is gone", s.WAL.Slot)
		case slot.ConfirmedFlushLSN != "" && slot.ActivePID != maker:
			return slot.Problem
		}
		select {
		case <-tick.C:
		case <-waiting.Done():
			return cmp.Or(ctx.Err(), slot.Problem, context.Cause(waiting))
		}
	}
}

// unpublished is [Setup.skips]. used is whether a relay may have read the publication: rows that were deleted count then, too, as far
// as the server's statistics know of them. They cannot be published any more, but that some are missing is not kept quiet.
func (s *postgresSetup) unpublished(ctx context.Context, used bool) error {
	if s.Backfill || s.SkipExisting {
		return nil
	}
	had := ""
	err := s.asOwner(ctx, func(owner *postgres.Database) error {
		return s.skips(ctx, fmt.Sprintf("slot %q", s.WAL.Slot), s.owner, func(ctx context.Context, table outbox.Name) (bool, error) {
			rows, inserted, err := owner.HasRows(ctx, table.SQL())
			if inserted {
				had = table.String()
			}
			return rows, err
		})
	})
	if err != nil || !used || had == "" {
		return err
	}
	return cdc.PositionError(rowsExist, "find out which events consumers miss; then continue with what is committed from now on with `cdc-relay setup --skip-existing`",
		"publication %q exists and slot %q does not, and rows of table %s were deleted that no relay may have read", s.WAL.Publication, s.WAL.Slot, had)
}

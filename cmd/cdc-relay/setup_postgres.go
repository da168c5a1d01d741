package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// postgresSetup is one run of setup on PostgreSQL.
type postgresSetup struct {
	*setup
	*postgresCommands
}

func (p *postgresCommands) setup(ctx context.Context, s *setup, owner connString) error {
	return (&postgresSetup{s, p}).run(ctx, owner)
}

func (p *postgresCommands) printSetup(ctx context.Context, s *setup) error {
	return (&postgresSetup{s, p}).printSQL(ctx)
}

func (p *postgresCommands) apply(ctx context.Context, a *app, flags *tableFlags, owner connString) error {
	db, err := p.open(ctx, owner)
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	for _, t := range p.list {
		if t.foreign() {
			a.reportForeign(t)
			continue
		}
		o := flags.table(t.name)
		script, err := outbox.PostgresTable(o)
		if err != nil {
			return cdc.Stop(cdc.ClassConfig, "usage", err, "")
		}
		before, err := db.Survey(ctx, postgres.Options{Tables: []string{o.Name.String()}})
		if err != nil {
			return err
		}
		if err := db.Exec(ctx, "create table "+o.Name.String(), texts(script.Up)...); err != nil {
			return err
		}
		a.reportTable(&o, before.Tables[o.Name.String()] != nil)
	}
	return nil
}

// steps returns the SQL, with grants for role unless it is "".
func (s *postgresSetup) steps(version int, role string, missing func(outboxTable) bool) (outbox.Steps, error) {
	o := outbox.SetupOptions{Publication: s.wal.Publication, Slot: s.wal.Slot, Role: role, Failover: s.failover(version)}
	for _, t := range s.list {
		o.Publish = append(o.Publish, t.name)
		if !t.foreign() && missing(t) {
			o.Make = append(o.Make, s.flags.table(t.name))
		}
		if _, maintained := s.wal.Routines[t.name.String()]; maintained {
			o.Maintain = append(o.Maintain, t.name)
		}
	}
	for _, t := range purgedTables(s.config, s.list) {
		o.Delete = append(o.Delete, t.name)
	}
	o.Letters = s.ownLetters()
	steps, err := outbox.PostgresSetup(o)
	if err != nil {
		return nil, cdc.Stop(cdc.ClassConfig, "usage", err, "")
	}
	return steps, nil
}

// failoverVersion is the first PostgreSQL that synchronizes slots to standbys.
const failoverVersion = 170000

func (s *postgresSetup) failover(version int) bool {
	switch s.config.Source.Postgres.Failover {
	case config.FailoverOn:
		return true
	case config.FailoverOff:
		return false
	default:
		return version >= failoverVersion
	}
}

// surveyTimeout limits how long --print waits for the server.
const surveyTimeout = 5 * time.Second

func (s *postgresSetup) printSQL(ctx context.Context) error {
	version := 0
	asking, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	if db, err := postgres.OpenDatabase(asking, s.wal.Options); err == nil {
		version = db.Server.Version
		db.Close(ctx)
	}
	steps, err := s.steps(version, s.config.Role(), func(outboxTable) bool { return true })
	if err != nil {
		return err
	}
	if version == 0 && s.config.Source.Postgres.Failover == config.FailoverAuto {
		s.app.printf("-- The database did not answer, so its version is not known. On PostgreSQL 17 and newer add\n" +
			"-- failover => true to pg_create_logical_replication_slot: the slot then survives a standby's promotion.\n\n")
	}
	s.app.printf("%s", steps)
	return nil
}

// run creates what is missing, in the order of dependencies.
func (s *postgresSetup) run(ctx context.Context, ownerDSN connString) error {
	db, err := postgres.OpenDatabase(ctx, s.wal.Options)
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	if err := db.Server.Problem(); err != nil {
		return err
	}
	before, err := db.Survey(ctx, s.wal.Options)
	if err != nil {
		return err
	}
	if err := s.makeObjects(ctx, db, ownerDSN, before); err != nil {
		return err
	}
	if err := s.makeSlot(ctx, db, before.Slot); err != nil {
		return err
	}
	if err := s.makeLetterTopics(ctx, s.config); err != nil {
		return err
	}
	if err := s.makePositionTopic(ctx, s.config); err != nil {
		return err
	}
	return s.finish(ctx, s.config)
}

// makeObjects creates tables and publication, as their owner and in one transaction.
func (s *postgresSetup) makeObjects(ctx context.Context, db *postgres.Database, ownerDSN connString, before postgres.Survey) error {
	if err := s.feasible(before); err != nil {
		return err
	}
	may, err := s.mayMaintain(ctx, db)
	if err != nil {
		return err
	}
	if before.Problem != nil || !may {
		owner, err := s.open(ctx, ownerDSN)
		if err != nil {
			return err
		}
		defer owner.Close(ctx)
		if err := s.execOwner(ctx, owner, db.Server.Role, before); err != nil {
			return err
		}
	}
	after, err := db.Survey(ctx, s.wal.Options)
	if err != nil {
		return err
	}
	s.report(before, after)
	return after.Problem
}

// mayMaintain reports whether the relay's role may maintain the partitions and delete old rows, if it is to, and whether its dead
// letters are recorded.
func (s *postgresSetup) mayMaintain(ctx context.Context, db *postgres.Database) (bool, error) {
	for table, routine := range s.wal.Routines {
		if may, err := db.MayMaintain(ctx, table, routine); err != nil || !may {
			return false, err
		}
	}
	for _, t := range purgedTables(s.config, s.list) {
		if may, err := db.MayDelete(ctx, t.name.String()); err != nil || !may {
			return false, err
		}
	}
	dsn, err := s.connString("")
	if err != nil {
		return false, err
	}
	return unrecorded(ctx, s.postgresCommands, dsn) == nil, nil
}

// feasible returns an error for what setup cannot fix.
func (s *postgresSetup) feasible(before postgres.Survey) error {
	for _, t := range s.list {
		if t.foreign() && before.Tables[t.name.String()] == nil {
			return cdc.Stop(cdc.ClassConfig, "table_missing", fmt.Errorf(
				"table %s does not exist, and setup creates no table that has a columns mapping", t.name), "correct tables[].name, or have its software create it")
		}
	}
	if stop, ok := errors.AsType[*cdc.StopError](before.Problem); ok && stop.Reason == postgres.UnfitTable {
		return before.Problem
	}
	if before.Slot != nil && before.Slot.Problem != nil {
		return before.Slot.Problem
	}
	if before.Slot != nil && !before.Publication {
		return cdc.Stop(cdc.ClassPosition, "slot_too_old", fmt.Errorf(
			"slot %q exists and publication %q does not, and a slot that is older than its publication cannot be read", s.wal.Slot, s.wal.Publication),
			"correct source.postgres.publication; if it was dropped, drop the slot too with `SELECT pg_drop_replication_slot('"+s.wal.Slot+"')`, make both with `cdc-relay setup`, and publish what consumers lack with `cdc-relay repair --since TIME`")
	}
	return nil
}

// execOwner runs the owner's statements, with grants where the relay has a role of its own.
func (s *postgresSetup) execOwner(ctx context.Context, owner *postgres.Database, relayRole string, before postgres.Survey) error {
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

func (s *postgresSetup) report(before, after postgres.Survey) {
	for _, t := range s.list {
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

// makeSlot creates the slot, after the publication is committed.
func (s *postgresSetup) makeSlot(ctx context.Context, db *postgres.Database, slot *postgres.SlotInfo) error {
	if slot != nil {
		s.app.printf("slot %s: exists, position %s\n", s.wal.Slot, slot.Confirmed)
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
	s.app.printf("slot %s: created at %s; PostgreSQL keeps WAL from now on until the relay has read it\n", s.wal.Slot, slot.Confirmed)
	return nil
}

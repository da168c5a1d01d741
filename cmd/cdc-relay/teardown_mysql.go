package main

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// teardown drops the checkpoint and, with --table, the tables. The relay has nothing else in the server.
func (m *mysql) teardown(ctx context.Context, t *teardown, owner connString) error {
	db, err := binlog.OpenDatabase(ctx, m.binlog)
	if err != nil {
		return err
	}
	defer db.Close()
	before, err := db.Survey(ctx, m.binlog)
	if err != nil {
		return err
	}
	if err := db.Idle(ctx, m.binlog); err != nil {
		return err
	}
	drop := t.drop(m.list)
	maker, err := m.open(ctx, owner)
	if err != nil {
		return err
	}
	defer maker.Close()
	taken, err := m.takenOut(ctx, maker)
	if err != nil {
		return err
	}
	if err := t.confirm(drop, taken); err != nil {
		return err
	}
	if err := t.dropCheckpoint(ctx, m.config, db.Source(m.binlog)); err != nil {
		return err
	}
	if err := m.drop(ctx, drop, maker); err != nil {
		return err
	}
	t.reportTables(m.list, before.Tables)
	t.reportTakenOut(taken)
	return nil
}

// takenOut returns what was taken out of each table, as far as the user may see it.
func (m *mysql) takenOut(ctx context.Context, owner *binlog.Database) (map[string][]string, error) {
	taken := map[string][]string{}
	for _, t := range m.list {
		if t.foreign() {
			continue
		}
		names, err := owner.Names(ctx, "read what was taken out of "+t.name.String(), outbox.MySQLTakenOut(t.name))
		if err != nil {
			return nil, err
		}
		taken[t.name.String()] = names
	}
	return taken, nil
}

// drop drops tables, and the procedures that are there: to drop one that is not takes a right too.
func (m *mysql) drop(ctx context.Context, tables []outbox.Name, owner *binlog.Database) error {
	var maintained []outbox.Name
	for _, t := range tables {
		names, err := owner.Names(ctx, "look for the procedure of "+t.String(), outbox.MySQLRoutineThere(t))
		if err != nil {
			return err
		}
		if len(names) > 0 {
			maintained = append(maintained, t)
		}
	}
	for _, step := range outbox.MySQLTeardown(tables, maintained) {
		if err := owner.Exec(ctx, "drop table", texts(step.Statements)...); err != nil {
			return err
		}
	}
	return nil
}

func (m *mysql) printTeardown(t *teardown) {
	steps := outbox.MySQLTeardown(t.drop(m.list), t.drop(m.list))
	if len(steps) == 0 {
		t.app.printf("-- Nothing to run: the server has only the table, which --table drops. `cdc-relay teardown` drops the checkpoint.\n")
		return
	}
	t.app.printf("%s", steps)
}

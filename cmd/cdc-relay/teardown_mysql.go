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
	if err := t.confirm(drop, nil); err != nil {
		return err
	}
	if err := t.dropCheckpoint(ctx, m.config); err != nil {
		return err
	}
	if len(drop) > 0 {
		if err := m.drop(ctx, drop, owner); err != nil {
			return err
		}
	}
	t.reportTables(m.list, before.Tables)
	return nil
}

func (m *mysql) drop(ctx context.Context, tables []outbox.Name, dsn connString) error {
	owner, err := m.open(ctx, dsn)
	if err != nil {
		return err
	}
	defer owner.Close()
	for _, step := range outbox.MySQLTeardown(tables) {
		if err := owner.Exec(ctx, "drop table", texts(step.Statements)...); err != nil {
			return err
		}
	}
	return nil
}

func (m *mysql) printTeardown(t *teardown) {
	steps := outbox.MySQLTeardown(t.drop(m.list))
	if len(steps) == 0 {
		t.app.printf("-- Nothing to run: the server has only the table, which --table drops. `cdc-relay teardown` drops the checkpoint.\n")
		return
	}
	t.app.printf("%s", steps)
}

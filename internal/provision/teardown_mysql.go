package provision

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// mysqlTeardown is one run of teardown on MySQL or MariaDB.
type mysqlTeardown struct {
	TeardownOptions
	*app.MySQL
}

// Run drops the checkpoint and, with --table, the tables. The relay has nothing else in the server.
func (t *mysqlTeardown) Run(ctx context.Context, owner app.ConnString) error {
	db, err := mysql.OpenDatabase(ctx, t.Binlog.Options)
	if err != nil {
		return err
	}
	defer db.Close()
	before, err := db.Survey(ctx, t.Binlog.Options)
	if err != nil {
		return err
	}
	if err := mysql.Idle(ctx, db, t.Binlog.Options); err != nil {
		return err
	}
	drop := t.drop(t.Tables())
	maker, err := t.Open(ctx, owner)
	if err != nil {
		return err
	}
	defer maker.Close()
	taken, err := takenOut(ctx, maker, t.Tables(), outbox.MySQLTakenOut)
	if err != nil {
		return err
	}
	store, foreign, err := t.checkpoint(ctx, t.Config, db.Source(t.Binlog.Options))
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	if err := t.Confirm("the checkpoint", drop, taken); err != nil {
		return err
	}
	if err := t.dropTables(ctx, drop, maker); err != nil {
		return err
	}
	if err := t.dropCheckpoint(ctx, t.Config, store, foreign); err != nil {
		return err
	}
	t.reportTables(t.Tables(), before.Tables)
	t.reportTakenOut(taken)
	return nil
}

// dropTables drops tables, and the procedures that are there: to drop one that is not takes a right too.
func (t *mysqlTeardown) dropTables(ctx context.Context, tables []outbox.Name, owner *mysql.Database) error {
	var maintained []outbox.Name
	for _, table := range tables {
		names, err := owner.Names(ctx, "look for the procedure of "+table.String(), outbox.MySQLRoutineThere(table))
		if err != nil {
			return err
		}
		if len(names) > 0 {
			maintained = append(maintained, table)
		}
	}
	for _, step := range outbox.MySQLTeardown(tables, maintained) {
		if err := owner.Exec(ctx, "drop table", outbox.Texts(step.Statements)...); err != nil {
			return err
		}
	}
	return nil
}

func (t *mysqlTeardown) Print() {
	steps := outbox.MySQLTeardown(t.drop(t.Tables()), t.drop(t.Tables()))
	if len(steps) == 0 {
		t.Printf("-- Nothing to run: the server has only the table, which --table drops. `cdc-relay teardown --yes` drops the checkpoint.\n")
		return
	}
	t.Printf("%s", steps)
}

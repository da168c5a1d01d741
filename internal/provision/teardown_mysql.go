package provision

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// mysqlTeardown drops the tables. The relay has nothing else in a server of MySQL or MariaDB.
type mysqlTeardown struct {
	*app.MySQL

	owner *mysql.Database
}

func (t *mysqlTeardown) sql(tables []outbox.Name) string {
	if len(tables) == 0 {
		return "-- Nothing to run: the server has only the table, which --drop-table drops. `cdc-relay teardown --yes` drops the checkpoint.\n"
	}
	return outbox.MySQLTeardown(tables, tables).String()
}

func (t *mysqlTeardown) open(ctx context.Context, owner app.ConnString) (found, error) {
	db, err := mysql.OpenDatabase(ctx, t.Binlog.Options)
	if err != nil {
		return found{}, err
	}
	defer db.Close()
	before, err := db.Survey(ctx, t.Binlog.Options)
	if err != nil {
		return found{}, err
	}
	if err := mysql.Idle(ctx, db, t.Binlog.Options); err != nil {
		return found{}, err
	}
	t.owner, err = t.Open(ctx, owner)
	return found{db.Source(t.Binlog.Options), before.Tables, "the checkpoint", t.owner, outbox.MySQLTakenOut}, err
}

func (t *mysqlTeardown) close(context.Context) {
	if t.owner != nil {
		t.owner.Close()
	}
}

// drop drops tables, and the procedures that are there: to drop one that is not takes a right too.
func (t *mysqlTeardown) drop(ctx context.Context, tables []outbox.Name) error {
	var maintained []outbox.Name
	for _, table := range tables {
		names, err := t.owner.Names(ctx, "look for the procedure of "+table.String(), outbox.MySQLRoutineThere(table))
		if err != nil {
			return err
		}
		if len(names) > 0 {
			maintained = append(maintained, table)
		}
	}
	for _, step := range outbox.MySQLTeardown(tables, maintained) {
		if err := t.owner.Exec(ctx, "drop table", outbox.Texts(step.Statements)...); err != nil {
			return err
		}
	}
	return nil
}

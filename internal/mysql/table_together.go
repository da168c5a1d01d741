package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

const (
	// togetherWait is how long the lock on each of the tables is waited for at a time, in seconds: writers wait behind it.
	togetherWait = 1
	// togetherPause is how long it leaves the tables alone then.
	togetherPause = 200 * time.Millisecond
	// togetherPatience is how long it is tried.
	togetherPatience = time.Minute
	// togetherTimeout is how long the server waits for the next statement, in seconds, before it unlocks the tables: so long writers
	// wait for a machine that is frozen, or gone.
	togetherTimeout = 3
)

// Together begins a transaction in each reader whose snapshot shows exactly what is before the position that read returns. MySQL shows a
// commit before its GTID is in gtid_executed, and does not tell which position a snapshot has. So a lock keeps writers out of the tables
// meanwhile: for milliseconds, and while a transaction that has written to them is open, but not for more than a second for each table at a time. It
// takes the right LOCK TABLES. The snapshots end with [TableReader.EndSnapshot]. locked is called with the session that has the lock.
func Together(ctx context.Context, o Options, readers []*TableReader, locked func(*sql.Conn) error, read func() (cdc.Position, error), log *slog.Logger) (at cdc.Position, err error) {
	cfg, err := o.Endpoint(ctx)
	if err != nil {
		return "", err
	}
	db, err := Open(ctx, cfg)
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return "", connectError(err, cfg)
	}
	defer func() { _ = conn.Close() }()
	if err := lockTables(ctx, conn, readers, log); err != nil {
		return "", err
	}
	if err := locked(conn); err != nil {
		return "", err
	}
	for _, t := range readers {
		if _, err := t.conn.ExecContext(ctx, "START TRANSACTION WITH CONSISTENT SNAPSHOT"); err != nil {
			return "", t.failed(err)
		}
	}
	if at, err = read(); err != nil {
		return "", err
	}
	if _, err := conn.ExecContext(ctx, "UNLOCK TABLES"); err != nil {
		return "", fmt.Errorf("unlock the tables: %w", err)
	}
	return at, nil
}

// lockTables keeps writers out of the tables.
func lockTables(ctx context.Context, conn *sql.Conn, readers []*TableReader, log *slog.Logger) error {
	names := make([]string, len(readers))
	for i, t := range readers {
		names[i] = t.Options.SQL + " READ"
	}
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("SET SESSION lock_wait_timeout = %d, SESSION wait_timeout = %d", togetherWait, togetherTimeout)); err != nil {
		return fmt.Errorf("lock the tables: %w", err)
	}
	for began := time.Now(); ; {
		_, err := conn.ExecContext(ctx, "LOCK TABLES "+strings.Join(names, ", "))
		code, said := ErrorNumber(err)
		switch {
		case err == nil:
			return nil
		case code == gomysql.ER_DBACCESS_DENIED_ERROR || code == gomysql.ER_TABLEACCESS_DENIED_ERROR:
			return cdc.ConfigError("no_privilege", "set CDC_RELAY_OWNER_DSN to the connection string of the tables' owner, or GRANT LOCK TABLES on their database",
				"the tables may not be locked for the moment at which the position is taken (%s)", said)
		case code != gomysql.ER_LOCK_WAIT_TIMEOUT && code != gomysql.ER_LOCK_DEADLOCK:
			return fmt.Errorf("lock the tables: %w", err)
		case time.Since(began) > togetherPatience:
			return cdc.Stop(cdc.ClassRuntime, "tables_in_use", fmt.Errorf("a transaction that has written to the tables was open for more than %s (%s)", togetherPatience, said),
				"end it, or wait for its end, and run the same command again")
		}
		log.Info("waiting for transactions that have written to the tables", "for", time.Since(began).Round(time.Second).String())
		if err := cdc.Sleep(ctx, togetherPause); err != nil {
			return err
		}
	}
}

// NonePrepared returns an error if a transaction of XA is prepared whose rows may be in the binlog, and will be in the tables. On MariaDB
// such a transaction keeps its locks of tables only as long as its session.
func NonePrepared(ctx context.Context, conn querier) error {
	var found, skipped any
	err := eachRow(ctx, conn, "look for prepared transactions", func() {}, []any{&skipped, &skipped, &skipped, &found}, "XA RECOVER")
	if err == nil && found != nil {
		err = cdc.Fixable("end it with XA COMMIT or XA ROLLBACK", "a transaction of XA is prepared (XA RECOVER shows %q): its rows may be before the position and not in the tables yet", found)
	}
	return err
}

// Here returns the error of a function that gets the reader's connection.
func (t *TableReader) Here(here func(*sql.Conn) error) error { return here(t.conn) }

// EndSnapshot ends the transaction of [Together].
func (t *TableReader) EndSnapshot(ctx context.Context) error {
	_, err := t.conn.ExecContext(ctx, "ROLLBACK")
	return t.failed(err)
}

// CountWhere counts the rows that a condition selects. It must be one without brackets around it, too: with them others could be added.
func (t *TableReader) CountWhere(ctx context.Context, where string) (int64, error) {
	for _, condition := range []string{where + "\n", "(" + where + "\n)"} {
		_, err := t.conn.ExecContext(ctx, "SELECT 1 FROM "+t.Options.SQL+" WHERE "+condition+" LIMIT 0") //nolint:gosec // it is the operator's
		if code, said := ErrorNumber(err); code != 0 && code != gomysql.ER_TABLEACCESS_DENIED_ERROR && code != gomysql.ER_COLUMNACCESS_DENIED_ERROR {
			return 0, tableread.BadCondition(t.Options.Table, said)
		}
		if err != nil {
			return 0, t.failed(err)
		}
	}
	return t.Count(ctx, tableread.Filter{Where: where})
}

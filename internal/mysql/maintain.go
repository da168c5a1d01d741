package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// Partitions are the daily partitions of one table. What it changes, it changes while it holds the lock, which ends with the
// connection.
type Partitions struct {
	db             *Database
	table, routine outbox.Name
	source         cdc.Source
	load           cdc.Loader
	locked         bool
	first          string // the partition of the oldest rows, at the last List
}

// Partitions returns the partitions of a table, which the routine maintains. source is whose checkpoint load loads.
func (d *Database) Partitions(table, routine outbox.Name, source cdc.Source, load cdc.Loader) *Partitions {
	return &Partitions{db: d, table: table, routine: routine, source: source, load: load}
}

// Name returns the table's name.
func (p *Partitions) Name() string { return p.table.String() }

// Maintainable returns an error on a replica, and for a table that is not partitioned as setup does it.
func (p *Partitions) Maintainable(ctx context.Context) error {
	if p.db.Replica(ctx) {
		return cdc.Fixable("point source.mysql.dsn at the primary, or set CDC_RELAY_OWNER_DSN to the connection string of the table's owner there, and run `cdc-relay retention run` from a timer",
			"partitions of %s: %s is a replica or takes no writes", p.table, p.db.Server.Address)
	}
	if err := p.db.publishes(); err != nil {
		return err
	}
	var ahead int64
	err := p.db.DB.QueryRowContext(ctx, partitionsAhead, p.table.Schema, p.table.Table).Scan(&ahead)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return cdc.Fixable("set retention.partitions: false, or, if the table does not exist, create it with `cdc-relay setup`",
			"table %s does not exist or has no daily partitions", p.table)
	case err != nil:
		return fmt.Errorf("read partitions of %s: %w", p.table, err)
	}
	return nil
}

// Make makes a day's partition, and all days since the last one are in it. With swap pmax is replaced by an empty table
// before: a split copies the rows that it finds.
func (p *Partitions) Make(ctx context.Context, day time.Time, swap bool) error {
	doing := "make the partition of " + day.Format(time.DateOnly)
	if swap {
		if err := p.exchange(ctx, doing, outbox.MySQLMaxPartition); err != nil {
			return err
		}
	}
	if err := p.change(ctx, doing, "make", outbox.MySQLPartition(day)); err != nil || !swap {
		return err
	}
	return p.change(ctx, doing, "finish", "")
}

// TakeOut exchanges a day's partition with an empty table, which waits for the transactions that wrote to it, and merges the
// empty partition of the days before into it.
func (p *Partitions) TakeOut(ctx context.Context, part cdc.Partition) error {
	doing := "detach " + part.Name
	rows, err := p.count(ctx, part.Name, 1)
	if err != nil {
		return err
	}
	if rows > 0 {
		if err := p.exchange(ctx, doing, part.Name); err != nil {
			return err
		}
		if err := p.change(ctx, doing, "finish", ""); err != nil {
			return err
		}
	}
	if part.Name == p.first {
		return nil
	}
	if err := p.change(ctx, doing, "merge", part.Name); err != nil {
		return err
	}
	p.first = part.Name
	return nil
}

// exchange ends what an interrupted pass began, and exchanges a partition with an empty table.
func (p *Partitions) exchange(ctx context.Context, doing, part string) error {
	for _, action := range []string{"finish", "spare", "flat"} {
		if err := p.change(ctx, doing, action, part); err != nil {
			return err
		}
	}
	err := p.change(ctx, doing, "exchange", part)
	if err != nil {
		_ = p.change(ctx, doing, "finish", "") // drops the empty table, or the next pass does
	}
	return err
}

// Drop drops what was taken out. It looks again while it holds the lock: the list may be of before.
func (p *Partitions) Drop(ctx context.Context, part cdc.Partition) error {
	doing := "drop " + part.Name
	if err := p.Lock(ctx); err != nil {
		return err
	}
	parts, _, err := p.List(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(parts, func(q cdc.Partition) bool { return q.Name == part.Name && q.Relayed }) {
		return p.busy(doing)
	}
	return p.change(ctx, doing, "drop", strings.TrimPrefix(part.Name, p.table.Schema+"."))
}

// writes allows writes where the server's default is to only read. It is a statement because MySQL and MariaDB name the variable differently.
const writes = "SET SESSION TRANSACTION READ WRITE"

// Lock takes the lock of the table's partitions, or fails if another process has it.
func (p *Partitions) Lock(ctx context.Context) error {
	if p.locked {
		return nil
	}
	if err := p.db.openCanceller(ctx); err != nil {
		return err
	}
	err := p.db.DB.QueryRowContext(ctx, "SELECT COALESCE(GET_LOCK(?, 0), 0)", outbox.MySQLPartitionLock(p.table)).Scan(&p.locked)
	if err != nil {
		return fmt.Errorf("table %s: lock its partitions: %w", p.table, err)
	}
	if !p.locked {
		return fmt.Errorf("table %s: another process maintains its partitions: %w", p.table, cdc.ErrBusy)
	}
	for _, setting := range []string{"SET SESSION lock_wait_timeout = 1, innodb_lock_wait_timeout = 1", writes} {
		if _, err := p.db.DB.ExecContext(ctx, setting); err != nil {
			return fmt.Errorf("table %s: prepare the connection: %w", p.table, err)
		}
	}
	return nil
}

const (
	// lockPatience is how long a statement may wait for a lock, and writers behind it. The servers' own bound is a second.
	lockPatience = 20 * time.Millisecond
	// lockLook is the time between two looks at a statement that has not ended by then.
	lockLook = 5 * time.Millisecond
)

// change calls the routine, and ends the call if it waits for a lock. A call that works is never ended.
func (p *Partitions) change(ctx context.Context, doing, action, part string) error {
	if err := p.Lock(ctx); err != nil {
		return err
	}
	running, ended := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		p.cancelWaits(running)
	}()
	_, err := p.db.DB.ExecContext(ctx, "CALL "+p.routine.MySQL()+"(?, ?)", action, part)
	ended()
	<-watched // or it would end the next call
	return p.changeError(doing, err)
}

func (p *Partitions) cancelWaits(running context.Context) {
	timer := time.NewTimer(lockPatience)
	defer timer.Stop()
	for {
		select {
		case <-running.Done():
			return
		case <-timer.C:
		}
		// Without the context: a call that is given up on may still reach the server.
		if _, err := p.db.canceller.ExecContext(context.WithoutCancel(running), "CALL "+p.routine.MySQL()+"('cancel', '')"); err != nil {
			return // the servers' own bound remains
		}
		timer.Reset(lockLook)
	}
}

// openCanceller opens the connection that ends waits.
func (d *Database) openCanceller(ctx context.Context) (err error) {
	if d.canceller == nil {
		d.canceller, err = Open(ctx, d.Config)
	}
	return err
}

// lockHeld is the cause, and endLockers the fix, of a statement on a table that waited for a lock for too long.
const (
	lockHeld   = "a transaction held a lock on it, or on a table that a foreign key connects with it"
	endLockers = "end long transactions on these tables, which information_schema.innodb_trx shows, if this is said again and again"
)

func (p *Partitions) busy(doing string) error {
	return cdc.Fixable(endLockers, "table %s: %s: %w, and application and relay do not wait for each other: %s", p.table, doing, cdc.ErrBusy, lockHeld)
}

// missing reports whether err says that the user may not call the routine.
func missing(err error) bool {
	code, _ := ErrorNumber(err)
	return code == gomysql.ER_SP_DOES_NOT_EXIST || code == gomysql.ER_PROCACCESS_DENIED_ERROR
}

func (p *Partitions) changeError(doing string, err error) error {
	code, said := ErrorNumber(err)
	switch {
	case err == nil:
		return nil
	case code == gomysql.ER_LOCK_WAIT_TIMEOUT, code == gomysql.ER_LOCK_DEADLOCK, code == gomysql.ER_QUERY_INTERRUPTED:
		return p.busy(doing)
	case missing(err), errors.Is(err, errStale):
		return cdc.Fixable("set CDC_RELAY_OWNER_DSN to the connection string of the table's owner, and run `cdc-relay setup` once, or `cdc-relay retention run` from a timer",
			"table %s: %s: user %s may not call the procedure that maintains the partitions, or it is not this version's (%s)", p.table, doing, p.db.Server.Role, cmp.Or(said, err.Error()))
	case code == gomysql.ER_TABLE_EXISTS_ERROR:
		return cdc.Fixable("rename that table with RENAME TABLE", "table %s: %s: a table of that name is in the way (%s)", p.table, doing, said)
	case code == outbox.MySQLYoung:
		return cdc.Fixable("wait until it is a day old, or set CDC_RELAY_OWNER_DSN to the connection string of the table's owner and run the same `cdc-relay retention run`", "table %s: %s: the relay's user drops no rows of the last 24 hours (%s)", p.table, doing, said)
	case code == gomysql.ER_PARTITION_EXCHANGE_DIFFERENT_OPTION:
		return cdc.Fixable("run ALTER TABLE "+p.table.MySQL()+" FORCE, ALGORITHM = INPLACE, LOCK = NONE, which copies the table while writers continue; in future add columns with ALGORITHM = INPLACE",
			"table %s: %s: partitions cannot be exchanged with a table that is made now, as after adding a column with ALGORITHM = INSTANT, or a change of innodb_default_row_format (%s)", p.table, doing, said)
	}
	return p.db.execError("table "+p.Name()+": "+doing, err)
}

// errStale says that the routine is another version's.
var errStale = errors.New("it returns other columns")

// MayMaintain reports whether the user of the connection may call a table's routine, and that is this version's.
func (d *Database) MayMaintain(ctx context.Context, table outbox.Name) (bool, error) {
	name := outbox.MySQLRoutine(table).MySQL()
	var sum sql.NullString
	err := d.DB.QueryRowContext(ctx, "CALL "+name+"('body', '')").Scan(&sum)
	if code, _ := ErrorNumber(err); code != 0 || errors.Is(err, sql.ErrNoRows) {
		return false, nil // another version fails in its own way
	}
	if err != nil {
		return false, fmt.Errorf("call %s: %w", name, err)
	}
	return sum.String == outbox.MySQLRoutineSum(d.Server.Flavor, table), nil
}

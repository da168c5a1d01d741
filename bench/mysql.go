package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/go-sql-driver/mysql"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// mysqlStand is a MySQL or MariaDB server.
type mysqlStand struct {
	*stand
	*testenv.MySQLServer

	db *sql.DB
}

const mysqlDatabase = "bench"

// mysql starts the flavor's server once, with an empty outbox.
func (s *stand) mysql(ctx context.Context, flavor string) (*mysqlStand, error) {
	server := s.my[flavor]
	if server == nil {
		var err error
		server, err = testenv.StartMySQL(ctx, testenv.MySQLOptions{Flavor: flavor, Settings: map[string]string{
			"innodb_buffer_pool_size": "512M", "innodb_log_buffer_size": "64M", "max_binlog_size": "1G",
		}})
		if err != nil {
			return nil, err
		}
		s.my[flavor] = server
		if err := server.CreateDatabase(ctx, mysqlDatabase); err != nil {
			return nil, err
		}
	}
	db, err := sql.Open("mysql", server.DSN(mysqlDatabase, "interpolateParams=true"))
	if err != nil {
		return nil, err
	}
	return &mysqlStand{s, server, db}, nil
}

func (m *mysqlStand) exec(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if _, err := m.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%.80s: %w", statement, err)
		}
	}
	return nil
}

// fresh creates an empty table and resets the binlog.
func (m *mysqlStand) fresh(ctx context.Context) error { return m.freshSince(ctx, 0) }

// freshSince creates a table with partitions for so many past days.
func (m *mysqlStand) freshSince(ctx context.Context, days int) error {
	script := outbox.MySQLTable(outbox.TableOptions{Name: outbox.Name{Schema: mysqlDatabase, Table: "outbox"}, From: time.Now().AddDate(0, 0, -days), Ahead: days + 1})
	// No commit waits for the disk, as with PostgreSQL in this benchmark.
	statements := []string{"SET GLOBAL sync_binlog = 0", "SET GLOBAL innodb_flush_log_at_trx_commit = 0", "DROP TABLE IF EXISTS outbox"}
	for _, st := range script.Up {
		statements = append(statements, st.SQL)
	}
	reset := "RESET BINARY LOGS AND GTIDS"
	if m.Flavor == testenv.MariaDBFlavor {
		reset = "RESET MASTER"
	}
	return m.exec(ctx, append(statements, reset)...)
}

// fill inserts n events in transactions of size rows.
func (m *mysqlStand) fill(ctx context.Context, n, size int) error {
	return m.fillWith(ctx, n, size, "UNHEX(REPLACE(UUID(), '-', ''))", "UTC_TIMESTAMP(6)")
}

// fillWith takes the event ID and the time of row i of transaction t from SQL expressions.
func (m *mysqlStand) fillWith(ctx context.Context, n, size int, id, at string) error {
	const columns = "(event_id, aggregate_type, aggregate_id, event_type, tenant_id, payload, occurred_at, created_at)"
	row := fmt.Sprintf(`%s, 'Order', CONCAT('order-', LPAD(((t * %d + i) * 7919) %% 100000, 6, '0')), 'OrderPlaced', 'tenant-1',
		CONCAT(RPAD(CONCAT('{"order":', t * %[2]d + i, ',"note":"'), %[3]d - 2, 'x'), '"}'), %[4]s, %[4]s`, id, size, payloadSize, at)
	procedure := fmt.Sprintf(`CREATE PROCEDURE fill() BEGIN DECLARE t BIGINT DEFAULT 1; WHILE t <= %d DO
		INSERT INTO outbox %s SELECT %s FROM numbers WHERE i <= %d; SET t = t + 1; END WHILE; END`, n/size, columns, row, size)
	numbers := fmt.Sprintf("INSERT INTO numbers SELECT (a.i - 1) * 1000 + b.i FROM numbers_1000 a, numbers_1000 b WHERE (a.i - 1) * 1000 + b.i <= %d", size)
	return m.exec(ctx, "DROP TABLE IF EXISTS numbers, numbers_1000", "CREATE TABLE numbers (i BIGINT PRIMARY KEY)", "CREATE TABLE numbers_1000 (i BIGINT PRIMARY KEY)",
		"INSERT INTO numbers_1000 VALUES (1)"+values(2, 1000), numbers,
		"DROP PROCEDURE IF EXISTS fill", procedure, "CALL fill()")
}

func values(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, ", (%d)", i)
	}
	return b.String()
}

// bareDrain reads n rows of the binlog with go-mysql, which decodes them, discards them, and returns the rate in rows per
// second.
func (m *mysqlStand) bareDrain(ctx context.Context, n int) (float64, error) {
	counter := &rowCounter{want: n, done: make(chan struct{})}
	cfg, err := mysql.ParseDSN(m.DSN(mysqlDatabase, ""))
	if err != nil {
		return 0, err
	}
	host, port, _ := strings.Cut(cfg.Addr, ":")
	var number uint16
	if _, err := fmt.Sscan(port, &number); err != nil {
		return 0, err
	}
	syncer := replication.NewBinlogSyncer(replication.BinlogSyncerConfig{
		ServerID: 4711, Flavor: m.Flavor, Host: host, Port: number, User: cfg.User, Password: cfg.Passwd,
		DisableRetrySync: true, DiscardGTIDSet: true, SynchronousEventHandler: counter, Logger: slog.New(slog.DiscardHandler),
	})
	defer syncer.Close()
	set, err := gomysql.ParseGTIDSet(m.Flavor, "")
	if err != nil {
		return 0, err
	}
	streamer, err := syncer.StartSyncGTID(set)
	if err != nil {
		return 0, err
	}
	failed := make(chan error, 1)
	go func() { _, err := streamer.GetEvent(ctx); failed <- err }()
	select {
	case <-counter.done:
		return float64(n) / counter.took.Seconds(), nil
	case err := <-failed:
		return 0, err
	}
}

// rowCounter counts inserted rows of the outbox.
type rowCounter struct {
	want, rows int
	first      time.Time
	took       time.Duration
	done       chan struct{}
}

func (c *rowCounter) HandleEvent(e *replication.BinlogEvent) error {
	rows, ok := e.Event.(*replication.RowsEvent)
	if !ok || string(rows.Table.Table) != "outbox" {
		return nil
	}
	if c.rows == 0 {
		c.first = time.Now()
	}
	if c.rows += len(rows.Rows); c.rows == c.want {
		c.took = time.Since(c.first)
		close(c.done)
	}
	return nil
}

// configure writes the configuration of a relay with its own checkpoint and returns its path.
func (m *mysqlStand) configure(name, topic, listen string) (path string, err error) {
	checkpoint, err := filepath.Abs(filepath.Join(m.dir, name+".checkpoint"))
	if err != nil {
		return "", err
	}
	if err := os.Remove(checkpoint); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	return m.write(name, topic, listen, fmt.Sprintf(`source:
  mysql: {id: bench, dsn: %q, unsafe_sync_binlog: true}
tables: [{name: %s.outbox}]
checkpoint: {file: %q}
`, m.DSN(mysqlDatabase, ""), mysqlDatabase, checkpoint))
}

func (m *mysqlStand) relayDrain(ctx context.Context, name string, n int) (drained, error) {
	topic, err := m.topic(ctx)
	if err != nil {
		return drained{}, err
	}
	addr := m.listen()
	path, err := m.configure(name, topic, addr)
	if err != nil {
		return drained{}, err
	}
	return m.timeDrain(ctx, path, addr, name, n, []string{topic}, "earliest")
}

// mysqlDrain is the drain scenario on a binlog, with bare reader and relay in turn.
func (s *stand) mysqlDrain(ctx context.Context, flavor, name string, rows, perTx, rounds int, bare bool) (drainResult, error) {
	res := drainResult{Rows: rows, PerTx: perTx}
	m, err := s.mysql(ctx, flavor)
	if err != nil {
		return res, err
	}
	defer func() { _ = m.db.Close() }()
	if err := errors.Join(m.fresh(ctx), m.fill(ctx, rows, perTx)); err != nil {
		return res, err
	}
	name = flavor + "_" + name
	if bare {
		if _, err := m.relayDrain(ctx, name+"_warm", rows); err != nil {
			return res, err
		}
	}
	for i := range rounds {
		if bare {
			rate, err := m.bareDrain(ctx, rows)
			if err != nil {
				return res, err
			}
			res.Bare, res.BareBinary = append(res.Bare, rate), append(res.BareBinary, rate)
		}
		d, err := m.relayDrain(ctx, fmt.Sprintf("%s_%d", name, i), rows)
		if err != nil {
			return res, err
		}
		res.Relay = append(res.Relay, d)
	}
	res.sum()
	return res, nil
}

// insertMySQL takes the aggregate ID and the payload.
const insertMySQL = `INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, tenant_id, payload, occurred_at)
	VALUES (UNHEX(REPLACE(UUID(), '-', '')), 'Order', ?, 'OrderPlaced', 'tenant-1', ?, UTC_TIMESTAMP(6))`

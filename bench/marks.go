package main

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// marksResult is what it costs to mark published rows, beside a poller that claims rows of the same table.
type marksResult struct {
	// P99 is the 99th percentile from insert to consumer with marks, as a multiple of that without, and Trail how old the oldest pending
	// row became meanwhile, in seconds.
	P99   float64 `json:"p99"`
	With  float64 `json:"p99_with_ms"`
	Trail float64 `json:"trail_s"`
	// Deadlocks are those that the poller and the writer met.
	Deadlocks int64 `json:"deadlocks"`
	// Rate is how many rows of a backlog were published and marked in a second, Bytes what each mark has added to the WAL or binlog.
	Rate  float64 `json:"rows_per_second"`
	Bytes float64 `json:"log_bytes_per_row"`
}

const (
	marksRate    = 5_000
	marksPerTx   = 10
	marksBacklog = 100_000
	claimPause   = 20 * time.Millisecond
)

// jobs is a table of other software on a database.
type jobs struct {
	*stand

	name   string
	db     *sql.DB
	source string // of the configuration
	// ended is where the WAL or binlog ends, in bytes.
	ended func(ctx context.Context) (int64, error)
	bytes string // the type of a payload
	bind  func(i int) string
	last  int // ID
}

func (s *stand) marked(ctx context.Context) (map[string]*marksResult, error) {
	all := map[string]*marksResult{}
	for name, open := range map[string]func(context.Context) (*jobs, error){
		"postgres":            s.postgresJobs,
		testenv.MySQLFlavor:   func(ctx context.Context) (*jobs, error) { return s.mysqlJobs(ctx, testenv.MySQLFlavor) },
		testenv.MariaDBFlavor: func(ctx context.Context) (*jobs, error) { return s.mysqlJobs(ctx, testenv.MariaDBFlavor) },
	} {
		j, err := open(ctx)
		if err == nil {
			all[name], err = j.measure(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return all, nil
}

func (s *stand) postgresJobs(ctx context.Context) (*jobs, error) {
	const name = "marks"
	if err := s.pg.CreateDatabase(ctx, name); err != nil {
		return nil, err
	}
	db, err := sql.Open("pgx", s.pg.DSN(name, ""))
	if err != nil {
		return nil, err
	}
	j := &jobs{
		stand: s, name: name, db: db, source: fmt.Sprintf("postgres: {dsn: %q, slot: %s, publication: %[2]s}", s.pg.DSN(name, ""), name),
		bytes: "bytea", bind: func(i int) string { return fmt.Sprintf("$%d", i) },
		ended: func(ctx context.Context) (end int64, err error) {
			err = db.QueryRowContext(ctx, "SELECT pg_current_wal_insert_lsn() - '0/0'").Scan(&end)
			return end, err
		},
	}
	err = j.exec(ctx, j.table()...)
	return j, err
}

func (s *stand) mysqlJobs(ctx context.Context, flavor string) (*jobs, error) {
	m, err := s.mysql(ctx, flavor)
	if err != nil {
		return nil, err
	}
	if err := m.fresh(ctx); err != nil {
		return nil, err
	}
	j := &jobs{
		stand: s, name: flavor + "_marks", db: m.db, source: fmt.Sprintf("mysql: {id: bench, dsn: %q, unsafe_sync_binlog: true}", m.DSN(mysqlDatabase, "")),
		bytes: "varbinary(1000)", bind: func(int) string { return "?" },
		ended: m.binlogEnd,
	}
	err = j.exec(ctx, j.table()...)
	return j, err
}

// binlogEnd is the size of all binlogs.
func (m *mysqlStand) binlogEnd(ctx context.Context) (total int64, err error) {
	rows, err := m.db.QueryContext(ctx, "SHOW BINARY LOGS")
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return 0, err
	}
	var size int64
	into := make([]any, len(columns))
	for i := range into {
		into[i] = new(sql.RawBytes)
	}
	into[1] = &size
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return 0, err
		}
		total += size
	}
	return total, rows.Err()
}

func (j *jobs) table() []string {
	return []string{
		"CREATE TABLE jobs (id bigint PRIMARY KEY, type varchar(20) NOT NULL, about varchar(20) NOT NULL, payload " + j.bytes + " NOT NULL, " +
			"status varchar(9) NOT NULL DEFAULT 'NEW', claimed int NOT NULL DEFAULT 0, at timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6))",
		"CREATE INDEX jobs_by_status ON jobs (status, id)",
	}
}

func (j *jobs) exec(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if _, err := j.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%.80s: %w", statement, err)
		}
	}
	return nil
}

// insert inserts rows with one statement.
func (j *jobs) insert(ctx context.Context, clock *stopwatch, first, n int) error {
	var values []string
	var args []any
	for i := range n {
		j.last++
		values = append(values, fmt.Sprintf("(%d, 'JobPlaced', 'job-%d', %s)", j.last, j.last%1000, j.bind(i+1)))
		args = append(args, append(binary.BigEndian.AppendUint64(nil, uint64(first+i)), make([]byte, payloadSize-8)...))
	}
	if clock != nil {
		clock.start(first, n)
	}
	_, err := j.db.ExecContext(ctx, fmt.Sprintf("INSERT INTO jobs (id, type, about, payload) VALUES %s", strings.Join(values, ", ")), args...)
	return err
}

// start starts a relay, which marks rows or not.
func (j *jobs) start(ctx context.Context, marks bool) (p *process, topic, addr string, err error) {
	if topic, err = j.topic(ctx); err != nil {
		return nil, "", "", err
	}
	writeBack := ""
	if marks {
		writeBack = `, write_back: {pending: "status = 'NEW'", set: {status: SENT}}`
	}
	addr = j.listen()
	path, err := j.write(j.name, topic, addr, fmt.Sprintf(`source:
  %s
tables: [{name: jobs, columns: {event_id: id, event_type: type, aggregate_id: about, payload: payload}%s}]
checkpoint: {file: %q}
`, j.source, writeBack, filepath.Base(j.checkpoint())))
	if err != nil {
		return nil, "", "", err
	}
	if out, err := exec.CommandContext(ctx, j.bin, "setup", "--config", path).CombinedOutput(); err != nil { // no row is pending the first time
		return nil, "", "", fmt.Errorf("setup: %s (%w)", out, err)
	}
	if p, err = j.stand.start(path); err != nil {
		return nil, "", "", err
	}
	err = p.until(ctx, 10*time.Millisecond, func() (bool, error) { return ready(ctx, addr), nil })
	return p, topic, addr, err
}

// checkpoint is the path of the stored position, beside the configuration.
func (j *jobs) checkpoint() string { return filepath.Join(j.dir, j.name+".checkpoint") }

func (j *jobs) measure(ctx context.Context) (*marksResult, error) {
	res := &marksResult{}
	if err := os.Remove(j.checkpoint()); err != nil && !errors.Is(err, os.ErrNotExist) { // of an earlier run
		return nil, err
	}
	without, err := j.live(ctx, false, res)
	if err != nil {
		return nil, err
	}
	if err := j.exec(ctx, "UPDATE jobs SET status = 'DONE' WHERE status = 'NEW'"); err != nil { // they are of the relay without marks
		return nil, err
	}
	with, err := j.live(ctx, true, res)
	if err != nil {
		return nil, err
	}
	res.P99, res.With = with.Relay.P99/without.Relay.P99, with.Relay.P99
	return res, j.backlog(ctx, res)
}

// live runs a steady load beside the poller.
func (j *jobs) live(ctx context.Context, marks bool, res *marksResult) (round latencyRound, err error) {
	p, topic, addr, err := j.start(ctx, marks)
	if err != nil {
		return round, err
	}
	beside, stop := context.WithCancel(ctx)
	defer stop()
	var others sync.WaitGroup
	var failed, deadlocks atomic.Int64
	others.Go(func() {
		for beside.Err() == nil {
			if err := j.claims(beside); err != nil && beside.Err() == nil {
				failed.Add(1)
				if isDeadlock(err) {
					deadlocks.Add(1)
				}
			}
			time.Sleep(claimPause)
		}
	})
	var trail float64
	others.Go(func() {
		for beside.Err() == nil && marks {
			var age float64
			if j.db.QueryRowContext(beside, j.oldest()).Scan(&age) == nil {
				trail = max(trail, age)
			}
			time.Sleep(200 * time.Millisecond)
		}
	})
	round, err = j.load(ctx, p, steadyLoad{
		topic: topic, addr: addr, name: j.name, rate: marksRate, perTx: marksPerTx,
		insert: func(clock *stopwatch, i int) error { return j.insert(ctx, clock, i*marksPerTx, marksPerTx) },
	})
	stop()
	others.Wait()
	res.Trail, res.Deadlocks = max(res.Trail, trail), res.Deadlocks+deadlocks.Load()
	if n := failed.Load() - deadlocks.Load(); err == nil && n > 0 {
		err = fmt.Errorf("the poller failed %d times", n)
	}
	if err != nil {
		return round, err
	}
	return round, p.stop()
}

// oldest is a query for the age of the oldest pending row, in seconds.
func (j *jobs) oldest() string {
	age := "TIMESTAMPDIFF(MICROSECOND, MIN(at), CURRENT_TIMESTAMP(6)) / 1e6"
	if j.bytes == "bytea" {
		age = "extract(epoch FROM localtimestamp - min(at))"
	}
	return "SELECT COALESCE(" + age + ", 0) FROM jobs WHERE status = 'NEW'"
}

// claims is what the table's poller does again and again: it takes rows that nobody has taken, and writes so.
func (j *jobs) claims(ctx context.Context) error {
	tx, err := j.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing after a commit
	rows, err := tx.QueryContext(ctx, "SELECT id FROM jobs WHERE status = 'NEW' ORDER BY id LIMIT 50 FOR UPDATE SKIP LOCKED")
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return err
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil || len(ids) == 0 {
		return err
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE jobs SET claimed = claimed + 1 WHERE id IN (%s)", strings.Join(ids, ", "))); err != nil {
		return err
	}
	return tx.Commit()
}

func isDeadlock(err error) bool { return strings.Contains(strings.ToLower(err.Error()), "deadlock") }

// backlog has rows published and marked that were inserted while no relay ran.
func (j *jobs) backlog(ctx context.Context, res *marksResult) error {
	for range marksBacklog / 100 {
		if err := j.insert(ctx, nil, 0, 100); err != nil {
			return err
		}
	}
	before, err := j.ended(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	p, _, _, err := j.start(ctx, true)
	if err != nil {
		return err
	}
	err = p.until(ctx, 100*time.Millisecond, func() (bool, error) {
		var pending int
		err := j.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM jobs WHERE status = 'NEW'").Scan(&pending)
		return pending == 0, err
	})
	if err != nil {
		return err
	}
	res.Rate = marksBacklog / time.Since(began).Seconds()
	after, err := j.ended(ctx)
	res.Bytes = float64(after-before) / marksBacklog
	return errors.Join(err, p.stop())
}

// marks prints the rows of each database.
func (r *report) marks(row func(what, found, reach string, ok bool)) {
	for _, name := range slices.Sorted(maps.Keys(r.Marks)) {
		m := r.Marks[name]
		row(fmt.Sprintf("%s: insert to consumer at %d/s beside a poller, p99 with write_back against without", name, marksRate), fmt.Sprintf("%.2f (%.0f ms to %.0f ms)", m.P99, m.With, m.With/m.P99), "1.5", m.P99 <= 1.5)
		row("the same: the oldest pending row", fmt.Sprintf("%.1f s", m.Trail), "5 s", m.Trail <= 5)
		row("the same: deadlocks of the poller", fmt.Sprint(m.Deadlocks), "0", m.Deadlocks == 0)
		row(fmt.Sprintf("%s: %d rows published and marked, without a poller", name, marksBacklog), fmt.Sprintf("%.0f/s, %.0f bytes of log for each", m.Rate, m.Bytes), "", true)
	}
}

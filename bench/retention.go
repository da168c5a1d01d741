package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// retentionResult compares how long INSERTs take while partitions are made, detached and dropped with a time in which
// nothing is done, in turn.
type retentionResult struct {
	// Extra is by how much the slowest INSERT of all rounds is slower, in milliseconds.
	Extra  float64          `json:"extra_ms"`
	Rounds []retentionRound `json:"rounds"`
}

type retentionRound struct {
	Without spread `json:"without"`
	With    spread `json:"with"`
}

const (
	retentionDays    = 24 // that the table has at first, a third of which are removed in each of three rounds
	retentionRounds  = 3
	retentionWriters = 4
	retentionRate    = 2000 // INSERTs a second, of all writers
	retentionSpan    = 8 * time.Second
)

// partitioned is an outbox with old days.
type partitioned struct {
	*stand

	dsn    string                          // of the table's owner
	config func() (path string, err error) // of the relay, which maintains nothing itself
	more   []string                        // where the relay begins; see stand.start
	// writer returns a function that inserts one event on a connection of its own.
	writer func(ctx context.Context) (insert func() error, closeConn func(), err error)
}

func (s *stand) retentions(ctx context.Context) (map[string]*retentionResult, error) {
	all := map[string]*retentionResult{}
	for name, open := range map[string]func(context.Context) (*partitioned, error){
		"postgres":            s.partitionedPostgres,
		testenv.MySQLFlavor:   func(ctx context.Context) (*partitioned, error) { return s.partitionedMySQL(ctx, testenv.MySQLFlavor) },
		testenv.MariaDBFlavor: func(ctx context.Context) (*partitioned, error) { return s.partitionedMySQL(ctx, testenv.MariaDBFlavor) },
	} {
		p, err := open(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if all[name], err = p.measure(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return all, nil
}

// measure runs the relay, which decides what may be dropped, and the command that maintains partitions beside the writers.
func (p *partitioned) measure(ctx context.Context) (*retentionResult, error) {
	path, err := p.config()
	if err != nil {
		return nil, err
	}
	relay, err := p.start(path, p.more...)
	if err != nil {
		return nil, err
	}
	res := &retentionResult{}
	var without, with float64
	for i := range retentionRounds {
		var round retentionRound
		if round.Without, err = p.pauses(ctx, func() error { return nil }); err != nil {
			return nil, fmt.Errorf("%w (%w)", err, relay.failed())
		}
		round.With, err = p.pauses(ctx, func() error {
			return p.maintain(ctx, path, 8+3*i, retentionDays*(retentionRounds-1-i)/retentionRounds+1)
		})
		if err != nil {
			return nil, err
		}
		without, with = max(without, round.Without.Max), max(with, round.With.Max)
		res.Rounds = append(res.Rounds, round)
	}
	res.Extra = with - without
	return res, relay.stop()
}

// maintain makes partitions for so many days, and removes those that are older than so many, until they are dropped.
func (p *partitioned) maintain(ctx context.Context, relay string, ahead, ttl int) error {
	path, err := withPartitions(relay, ahead)
	if err != nil {
		return err
	}
	dropped := 0
	for range 2 { // the second drops what the relay had not saved yet
		out, err := exec.CommandContext(ctx, p.bin, "retention", "run", "--config", path, "--owner-dsn", p.dsn, "--ttl", fmt.Sprintf("%dd", ttl)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("retention run: %s (%w)", out, err)
		}
		dropped += strings.Count(string(out), "dropped")
		time.Sleep(retentionSpan / 8)
	}
	if dropped == 0 {
		return errors.New("retention run has dropped nothing")
	}
	return nil
}

// pauses returns how long INSERTs take while fn runs.
func (p *partitioned) pauses(ctx context.Context, fn func() error) (spread, error) {
	n := int(retentionSpan.Seconds()) * retentionRate / retentionWriters
	clocks := make([]*stopwatch, retentionWriters)
	errs := make([]error, retentionWriters+1)
	var wg sync.WaitGroup
	for w := range clocks {
		clocks[w] = newStopwatch(n, 0)
		wg.Go(func() { errs[w] = p.write(ctx, clocks[w], n) })
	}
	wg.Go(func() {
		time.Sleep(retentionSpan / 4)
		errs[retentionWriters] = fn()
	})
	wg.Wait()
	all := newStopwatch(0, 0)
	for _, c := range clocks {
		all.took = append(all.took, c.took...)
	}
	for _, err := range errs {
		if err != nil {
			return spread{}, err
		}
	}
	return all.spread(), nil
}

func (p *partitioned) write(ctx context.Context, clock *stopwatch, n int) error {
	insert, closeConn, err := p.writer(ctx)
	if err != nil {
		return err
	}
	defer closeConn()
	return paced(ctx, n, retentionRate/retentionWriters, func(i int) error {
		clock.start(i, 1)
		err := insert()
		clock.stop(i, time.Now())
		return err
	})
}

// withPartitions adds the section to a copy of a configuration.
func withPartitions(path string, ahead int) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	path = strings.TrimSuffix(path, filepath.Ext(path)) + fmt.Sprintf("_%d.yaml", ahead)
	return path, os.WriteFile(path, append(text, fmt.Sprintf("retention: {ahead: %d, keep: 90d}\n", ahead)...), 0o600) //nolint:gosec // a configuration that this benchmark has written
}

func (s *stand) partitionedPostgres(ctx context.Context) (*partitioned, error) {
	const name = "retention"
	conn, err := s.databaseSince(ctx, name, retentionDays, name)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, occurred_at, created_at)
		SELECT gen_random_uuid(), 'Order', 'o', 'OrderPlaced', now(), now() - d * interval '1 day' FROM generate_series(1, $1::int) d, generate_series(1, 1000)`, retentionDays)
	if err != nil {
		return nil, err
	}
	topic, err := s.topic(ctx)
	if err != nil {
		return nil, err
	}
	listen := s.listen()
	return &partitioned{
		stand: s, dsn: s.pg.DSN(name, ""),
		config: func() (string, error) { return s.configure(name, name, topic, listen) },
		writer: func(ctx context.Context) (func() error, func(), error) {
			conn, err := pgx.Connect(ctx, s.pg.DSN(name, ""))
			return func() error {
				_, err := conn.Exec(ctx, `INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, occurred_at) VALUES (gen_random_uuid(), 'Order', 'o', 'OrderPlaced', now())`)
				return err
			}, func() { _ = conn.Close(ctx) }, err
		},
	}, nil
}

func (s *stand) partitionedMySQL(ctx context.Context, flavor string) (*partitioned, error) {
	m, err := s.mysql(ctx, flavor)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(m.freshSince(ctx, retentionDays), m.exec(ctx, "SET GLOBAL sync_binlog = 1", "SET GLOBAL innodb_flush_log_at_trx_commit = 1")); err != nil {
		return nil, err
	}
	for day := 1; day <= retentionDays; day++ {
		row := ", (UNHEX(REPLACE(UUID(), '-', '')), 'Order', 'o', 'OrderPlaced', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL " + strconv.Itoa(day) + " DAY)"
		if err := m.exec(ctx, "INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, occurred_at, created_at) VALUES "+strings.Repeat(row, 1000)[2:]); err != nil {
			return nil, err
		}
	}
	topic, err := s.topic(ctx)
	if err != nil {
		return nil, err
	}
	name, listen := flavor+"_retention", s.listen()
	return &partitioned{
		stand: s, dsn: m.DSN(mysqlDatabase, ""), more: []string{"current"},
		config: func() (string, error) { return m.configure(name, topic, listen) },
		writer: func(ctx context.Context) (func() error, func(), error) {
			conn, err := m.db.Conn(ctx)
			return func() error {
				_, err := conn.ExecContext(ctx, `INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, occurred_at) VALUES (UNHEX(REPLACE(UUID(), '-', '')), 'Order', 'o', 'OrderPlaced', UTC_TIMESTAMP(6))`)
				return err
			}, func() { _ = conn.Close() }, err
		},
	}, nil
}

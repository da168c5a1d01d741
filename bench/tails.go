package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// tailKind is a relay that is measured.
type tailKind struct {
	name string
	once bool
	more string // of its source section
}

func tailKinds() []tailKind {
	const early = ", wait_until_visible: false"
	return []tailKind{
		{"at-least-once", false, ""},
		{"at-least-once, without waiting until rows are visible", false, early},
		{"exactly-once", true, ""},
		{"exactly-once, without waiting until rows are visible", true, early},
	}
}

const (
	tailRate = 1000
	// tailWriters share the load: a commit that waits for the disk takes longer than the time between two.
	tailWriters = 8
	// tailWarmUp is what the brokers' code for transactions needs until it is compiled, in loads of 23 s.
	tailWarmUp = 3
)

// tails measures the latency at 1,000/s with fsync on, as a database in production has it: in each round the same load runs in
// turn through every kind and to Kafka alone. The results are by the name of the kind.
func (s *stand) tails(ctx context.Context, rounds int) (map[string]*latencyRes, error) {
	defer func() { s.once = false }()
	if err := s.fsync(ctx, true); err != nil {
		return nil, err
	}
	for i := range tailWarmUp {
		if _, err := s.tail(ctx, tailKind{once: true}, fmt.Sprintf("tails_warm_%d", i), false); err != nil {
			return nil, fmt.Errorf("warming up: %w", err)
		}
	}
	res := map[string]*latencyRes{}
	for round := range rounds {
		for i, k := range tailKinds() {
			l, err := s.tail(ctx, k, fmt.Sprintf("tails_%d_%d", round, i), true)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", k.name, err)
			}
			if res[k.name] == nil {
				res[k.name] = &latencyRes{Rate: tailRate, PerTx: 1}
			}
			res[k.name].Rounds = append(res[k.name].Rounds, l)
		}
	}
	for _, l := range res {
		l.sum()
	}
	return res, s.fsync(ctx, false)
}

// tail is one run of one kind, and then of Kafka alone.
func (s *stand) tail(ctx context.Context, k tailKind, name string, alone bool) (latencyRound, error) {
	s.once = k.once
	conn, err := s.database(ctx, name, name)
	if err != nil {
		return latencyRound{}, err
	}
	defer conn.Close(ctx)
	topic, err := s.topic(ctx)
	if err != nil {
		return latencyRound{}, err
	}
	if k.once {
		if err := s.positions(ctx, name, name); err != nil {
			return latencyRound{}, err
		}
	}
	addr := s.listen()
	path, err := s.write(name, topic, addr, fmt.Sprintf(`source:
  postgres: {dsn: %q, slot: %s, publication: %s%s}
tables: [{name: public.outbox}]
`, s.pg.DSN(name, ""), name, name, k.more))
	if err != nil {
		return latencyRound{}, err
	}
	p, err := s.start(path)
	if err != nil {
		return latencyRound{}, err
	}
	w, err := s.tailWriter(ctx, name)
	if err != nil {
		return latencyRound{}, err
	}
	res, err := s.load(ctx, p, steadyLoad{
		topic: topic, addr: addr, name: name, rate: tailRate, perTx: 1,
		insert: func(clock *stopwatch, i int) error { return w.insert(ctx, clock, i) },
	})
	if err != nil {
		return res, err
	}
	res.Insert = w.inserts.spread()
	if err := errors.Join(p.stop(), w.close(ctx), dropSlots(ctx, conn, []string{name})); err != nil || !alone {
		return res, err
	}
	res.Kafka, err = s.kafkaAlone(ctx, tailRate)
	return res, err
}

// tailWriter shares a load among connections, and times their INSERTs.
type tailWriter struct {
	free   chan *pgx.Conn
	failed chan error

	mu      sync.Mutex
	inserts *stopwatch
}

func (s *stand) tailWriter(ctx context.Context, database string) (*tailWriter, error) {
	warm := int(latencyWarmUp.Seconds()) * tailRate
	w := &tailWriter{
		free: make(chan *pgx.Conn, tailWriters), failed: make(chan error, tailWriters),
		inserts: newStopwatch(warm+int(latencySpan.Seconds())*tailRate, warm),
	}
	for range tailWriters {
		conn, err := pgx.Connect(ctx, s.pg.DSN(database, ""))
		if err != nil {
			return nil, err
		}
		w.free <- conn
	}
	return w, nil
}

// insert hands an INSERT to a free connection, and waits only if all are busy. It returns the error of an earlier one.
func (w *tailWriter) insert(ctx context.Context, clock *stopwatch, i int) error {
	select {
	case err := <-w.failed:
		return err
	case conn := <-w.free:
		w.inserts.start(i, 1)
		go func() {
			err := insert(ctx, conn, clock, i, 1)
			w.mu.Lock()
			w.inserts.stop(i, time.Now())
			w.mu.Unlock()
			if err != nil {
				w.failed <- err
				return
			}
			w.free <- conn
		}()
		return nil
	}
}

// close waits for the connections and closes them.
func (w *tailWriter) close(ctx context.Context) error {
	var errs []error
	for range tailWriters {
		errs = append(errs, (<-w.free).Close(ctx))
	}
	return errors.Join(errs...)
}

// fsync sets PostgreSQL's fsync, and waits until its processes have read it.
func (s *stand) fsync(ctx context.Context, on bool) error {
	conn, err := pgx.Connect(ctx, s.pg.DSN("postgres", ""))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, statement := range []string{fmt.Sprintf("ALTER SYSTEM SET fsync = %t", on), "SELECT pg_reload_conf()"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	for {
		var now bool
		if err := conn.QueryRow(ctx, "SELECT current_setting('fsync')::bool").Scan(&now); err != nil || now == on {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

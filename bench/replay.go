package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// replayResult is a replay next to a live stream, and a repair of the same rows, on one database.
type replayResult struct {
	Rows int `json:"rows"`
	// Replay runs while the relay publishes 1,000 events a second, Repair instead of the relay.
	Replay commandRun `json:"replay"`
	Repair commandRun `json:"repair"`
	// Live is the live stream next to the replay, Alone without one, Bare next to a bare producer of the same rate: what database,
	// broker and machine cost.
	Live  spread `json:"live"`
	Alone spread `json:"live_alone"`
	Bare  spread `json:"live_next_to_producer"`
}

// commandRun is a command that publishes rows of the table. The rate is that of the whole run, start included.
type commandRun struct {
	Rate        float64 `json:"events_per_second"`
	CPUPerEvent float64 `json:"cpu_us_per_event"`
	PeakRSS     float64 `json:"peak_rss_mb"`
	Steal       float64 `json:"steal_percent"`
}

const (
	replayRate = 1000   // events a second of the live stream
	replayPace = 60_000 // --rate of the replay: without a limit it takes all that the machine has
)

// replayDays is how long ago the first row was created: the rows are in three partitions.
const replayDays = 2

// replayed is a database with a filled outbox.
type replayed struct {
	*stand

	name   string
	until  time.Time // the rows are older
	start  func(topic, addr string) (config string, p *process, err error)
	insert func(clock *stopwatch, i int) error // the i-th event of the live stream
	close  func()
}

func (s *stand) replays(ctx context.Context, rows int) (map[string]*replayResult, error) {
	if _, err := s.kafkaAlone(ctx, 10_000, latencyWarmUp, latencySpan); err != nil {
		return nil, fmt.Errorf("warming up: %w", err)
	}
	out := map[string]*replayResult{}
	for _, one := range []struct {
		name string
		fill func() (*replayed, error)
	}{
		{"postgres", func() (*replayed, error) { return s.replayedPostgres(ctx, "replay", rows, idOfTime) }},
		{"postgres, random IDs", func() (*replayed, error) {
			return s.replayedPostgres(ctx, "replay_random", rows, "gen_random_uuid()")
		}},
		{"mysql", func() (*replayed, error) { return s.replayedMySQL(ctx, "mysql", rows) }},
		{"mariadb", func() (*replayed, error) { return s.replayedMySQL(ctx, "mariadb", rows) }},
	} {
		res, err := s.besides(ctx, rows, one.fill)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.name, err)
		}
		out[one.name] = res
	}
	return out, nil
}

func (s *stand) besides(ctx context.Context, rows int, fill func() (*replayed, error)) (*replayResult, error) {
	d, err := fill()
	if err != nil {
		return nil, err
	}
	defer d.close()
	res := &replayResult{Rows: rows}
	live, err := s.topic(ctx)
	if err != nil {
		return nil, err
	}
	addr := s.listen()
	config, p, err := d.start(live, addr)
	if err != nil {
		return nil, err
	}
	if err := p.until(ctx, 10*time.Millisecond, func() (bool, error) { return ready(ctx, addr), nil }); err != nil {
		return nil, err
	}
	if err := d.live(ctx, live, res, func() error { return d.replay(ctx, config, res) }); err != nil {
		return nil, err
	}
	if err := p.stop(); err != nil {
		return nil, err
	}
	return res, d.command(ctx, config, live, rows, &res.Repair, "repair", "--all")
}

// live runs the live stream alone, then next to a bare producer, then next to a replay. Each of them ends within a span.
func (d *replayed) live(ctx context.Context, topic string, res *replayResult, replay func() error) error {
	warm, span := int(latencyWarmUp.Seconds())*replayRate, int(latencySpan.Seconds())*replayRate
	bare, replaying, end := warm+span, warm+2*span, warm+3*span
	clock := newStopwatch(end, warm)
	var at, bareEnded, ended atomic.Int64 // which event came last
	var next errgroup.Group
	err := d.consume(ctx, topic, clock, func() error {
		return paced(ctx, end, replayRate, func(i int) error {
			at.Store(int64(i))
			switch i {
			case bare:
				next.Go(func() error {
					defer func() { bareEnded.Store(at.Load()) }()
					return d.produce(ctx, res.Rows, replayPace)
				})
			case replaying:
				next.Go(func() error { defer func() { ended.Store(at.Load()) }(); return replay() })
			}
			return d.insert(clock, i)
		})
	})
	if err := errors.Join(err, next.Wait()); err != nil {
		return err
	}
	if bareEnded.Load() >= int64(replaying) {
		return fmt.Errorf("%s: %d rows take longer than %s at %d a second: measure fewer", d.name, res.Rows, latencySpan, replayPace)
	}
	res.Alone, res.Bare, res.Live = clock.between(warm, bare), clock.between(bare, int(bareEnded.Load())+1), clock.between(replaying, int(ended.Load())+1)
	return nil
}

// produce publishes n records of the size of the rows to a topic of their own at a rate per second, as often as a replay does.
func (s *stand) produce(ctx context.Context, n, rate int) error {
	topic, err := s.topic(ctx)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(s.kafka.Bootstrap()...), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0), kgo.MetadataMinAge(metadataMinAge))
	if err != nil {
		return err
	}
	defer client.Close()
	value, piece := make([]byte, payloadSize), rate/1000
	err = paced(ctx, n/piece, 1000, func(i int) error {
		for j := range piece {
			client.Produce(ctx, &kgo.Record{Key: fmt.Appendf(nil, "order-%06d", (i*piece+j)%100000), Value: value}, nil)
		}
		return nil
	})
	return errors.Join(err, client.Flush(ctx))
}

// replay replays the rows to a topic of their own.
func (d *replayed) replay(ctx context.Context, config string, res *replayResult) error {
	topic, err := d.topic(ctx)
	if err != nil {
		return err
	}
	state := filepath.Join(d.dir, d.name+".replay.json")
	if err := os.Remove(state); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return d.command(ctx, config, topic, res.Rows, &res.Replay, "replay", "--yes", "--rate", strconv.Itoa(replayPace), "--until", d.until.Format(time.RFC3339Nano), "--topic", topic, "--state", state)
}

// command runs a command that publishes so many rows, and verifies that they are in the topic.
func (d *replayed) command(ctx context.Context, config, topic string, rows int, res *commandRun, args ...string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(d.kafka.Bootstrap()...))
	if err != nil {
		return err
	}
	defer client.Close()
	before, err := records(ctx, client, []string{topic})
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, d.bin, append(args, "--config", config)...)
	began, machine := time.Now(), readCPU()
	said, err := cmd.CombinedOutput()
	took := time.Since(began)
	if err != nil {
		return fmt.Errorf("%s: %w: %s", args[0], err, said)
	}
	after, err := records(ctx, client, []string{topic})
	if err != nil {
		return err
	}
	if after-before < int64(rows) {
		return fmt.Errorf("%s: %d of %d rows were published: %s", args[0], after-before, rows, said)
	}
	published := float64(after - before)
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	*res = commandRun{Rate: published / took.Seconds(), CPUPerEvent: float64(used.Microseconds()) / published, Steal: readCPU().stolenSince(machine)}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		res.PeakRSS = float64(usage.Maxrss) / (1 << 10)
	}
	return nil
}

// idOfTime is a UUIDv7 of the time at.
const idOfTime = `encode(overlay(substring(int8send((extract(epoch FROM at) * 1000)::bigint) FROM 3) || substring(uuid_send(gen_random_uuid()) FROM 7) PLACING '\x70' FROM 7 FOR 1), 'hex')::uuid`

func (s *stand) replayedPostgres(ctx context.Context, name string, rows int, id string) (*replayed, error) {
	conn, err := s.databaseSince(ctx, name, replayDays, name)
	if err != nil {
		return nil, err
	}
	fill := fmt.Sprintf(`INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, tenant_id, payload, occurred_at, created_at)
		SELECT %s, 'Order', 'order-' || lpad((i * 7919::bigint %% 100000)::text, 6, '0'), 'OrderPlaced', 'tenant-1',
			convert_to(rpad('{"order":' || i || ',"note":"', %d, 'x') || '"}', 'UTF8'), at, at
		FROM generate_series(1, %d) i, LATERAL (SELECT date_trunc('milliseconds', now() - interval '%d days' * (1 - i / %[3]d.0)) AS at) t`, id, payloadSize-2, rows, replayDays)
	// autovacuum and a checkpoint would have been there meanwhile, and the relay.
	for _, statement := range []string{fill, "VACUUM ANALYZE outbox", "CHECKPOINT", "SELECT pg_replication_slot_advance('" + name + "', pg_current_wal_lsn())"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return nil, err
		}
	}
	return &replayed{
		stand: s, name: name, until: time.Now(), close: func() { _ = dropSlots(ctx, conn, []string{name}); _ = conn.Close(ctx) },
		insert: func(clock *stopwatch, i int) error { return insert(ctx, conn, clock, i, 1) },
		start: func(topic, addr string) (string, *process, error) {
			config, err := s.configure(name, name, topic, addr)
			if err != nil {
				return "", nil, err
			}
			p, err := s.start(config)
			return config, p, err
		},
	}, nil
}

func (s *stand) replayedMySQL(ctx context.Context, flavor string, rows int) (*replayed, error) {
	m, err := s.mysql(ctx, flavor)
	if err != nil {
		return nil, err
	}
	if err := m.freshSince(ctx, replayDays); err != nil {
		return nil, err
	}
	began, step := time.Now().UTC().AddDate(0, 0, -replayDays), replayDays*24*time.Hour/time.Duration(rows)
	at := fmt.Sprintf("TIMESTAMP'%s' + INTERVAL (t * 1000 + i - 1000) * %d MICROSECOND", began.Format("2006-01-02 15:04:05.000"), step.Microseconds())
	id := fmt.Sprintf("UNHEX(CONCAT(LPAD(HEX(%d + (t * 1000 + i - 1000) * %d DIV 1000), 12, '0'), '7000', LEFT(SHA2(t * 1000 + i, 256), 16)))", began.UnixMilli(), step.Microseconds())
	if err := m.fillWith(ctx, rows, 1000, id, at); err != nil {
		return nil, err
	}
	conn, err := m.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &replayed{
		stand: s, name: flavor + "_replay", until: time.Now(), close: func() { _ = conn.Close(); _ = m.db.Close() },
		insert: func(clock *stopwatch, i int) error {
			clock.start(i, 1)
			key, payload := numbered(i)
			_, err := conn.ExecContext(ctx, insertMySQL, key, payload)
			return err
		},
		start: func(topic, addr string) (string, *process, error) {
			config, err := m.configure(flavor+"_replay", topic, addr)
			if err != nil {
				return "", nil, err
			}
			p, err := m.start(config, "current")
			return config, p, err
		},
	}, nil
}

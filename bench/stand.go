package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

const partitions = 8

// stand has the servers, which all scenarios share.
type stand struct {
	bin, dir string // the relay's binary; the directory for configurations, logs and profiles
	pg       *testenv.PostgresServer
	my       map[string]*testenv.MySQLServer // by flavor; started when first needed
	kafka    *testenv.KafkaCluster
	topics   int
	relays   []*process // all started ones; close kills those of a failed scenario
	profile  string     // directory for profiles; "" for no profiles
	// once starts relays with exactly-once delivery.
	once bool
	// more is added to their configuration, and table to that of the table.
	more, table string
}

func newStand(ctx context.Context, bin, dir string) (*stand, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	pg, err := testenv.StartPostgres(ctx, testenv.PostgresOptions{Settings: map[string]string{
		"max_wal_size": "8GB", "shared_buffers": "256MB", "max_replication_slots": "20", "max_wal_senders": "20",
	}})
	if err != nil {
		return nil, err
	}
	// What is allocated in several turns fits into 3 GB: see collect.
	kafka, err := testenv.StartKafka(ctx, testenv.KafkaOptions{Settings: map[string]string{"log.retention.ms": "600000"}, JVM: []string{"-Xms4g", "-Xmx4g", "-Xmn3g"}})
	if err != nil {
		return nil, errors.Join(err, pg.Close())
	}
	return &stand{bin: bin, dir: dir, pg: pg, my: map[string]*testenv.MySQLServer{}, kafka: kafka}, nil
}

func (s *stand) close() error {
	for _, p := range s.relays {
		p.kill()
	}
	errs := []error{s.kafka.Close(), s.pg.Close()}
	for _, m := range s.my {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// database creates a database with an empty outbox and the named slots.
func (s *stand) database(ctx context.Context, name string, slots ...string) (*pgx.Conn, error) {
	return s.databaseSince(ctx, name, 0, slots...)
}

// databaseSince creates a database whose outbox has partitions for so many past days.
func (s *stand) databaseSince(ctx context.Context, name string, days int, slots ...string) (*pgx.Conn, error) {
	if err := s.pg.CreateDatabase(ctx, name); err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, s.pg.DSN(name, ""))
	if err != nil {
		return nil, err
	}
	table := outbox.Name{Schema: "public", Table: "outbox"}
	for i, slot := range slots {
		o := outbox.SetupOptions{Read: []outbox.Name{table}, Publication: name, Slot: slot}
		if i == 0 {
			o.Make = []outbox.TableOptions{{Name: table, Payload: outbox.PayloadBytea, Partition: outbox.PartitionDaily, From: time.Now().AddDate(0, 0, -days), Ahead: days + 1}}
		}
		steps := outbox.PostgresSetup(o)
		for _, step := range steps {
			for _, st := range step.Statements {
				if _, err := conn.Exec(ctx, st.SQL); err != nil {
					return nil, fmt.Errorf("%s: %w", st.SQL, err)
				}
			}
		}
	}
	return conn, nil
}

// topic creates a topic.
func (s *stand) topic(ctx context.Context) (string, error) {
	s.topics++
	name := fmt.Sprintf("bench-%d", s.topics)
	return name, s.kafka.CreateTopic(ctx, name, partitions, nil)
}

// configure writes the configuration of a relay that reads a slot and returns its path.
func (s *stand) configure(database, slot, topic, listen string) (path string, err error) {
	return s.write(slot, topic, listen, fmt.Sprintf(`source:
  postgres: {dsn: %q, slot: %s, publication: %s}
tables: [{name: public.outbox%s}]
`, s.pg.DSN(database, ""), slot, database, s.table))
}

// write writes a configuration with the given source section and returns its path.
func (s *stand) write(name, topic, listen, source string) (path string, err error) {
	more := ""
	if s.once {
		more = ", position_topic: " + positionTopic(name)
	}
	text := fmt.Sprintf(`%sroutes: [{topic: %s}]
kafka: {brokers: [%s]%s}
http: {listen: %q}
log: {level: info, format: text}
`, source, topic, strings.Join(s.kafka.Bootstrap(), ", "), more, listen)
	if s.once {
		text += "delivery: exactly-once\n"
	}
	text += s.more
	path = filepath.Join(s.dir, name+".yaml")
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// fill inserts n events in transactions of size rows. pgoutput's Insert message has 385 bytes in binary format.
func fill(ctx context.Context, conn *pgx.Conn, n, size int) error {
	// A backlog needs no synchronous commits. A steady load does: the walsender sends only what is flushed, which without
	// them is up to 200 ms later.
	if _, err := conn.Exec(ctx, "SET synchronous_commit = off"); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, backlog("'Order'", orderKey, n, size, payloadSize))
	return err
}

// orderKey is an SQL expression for the aggregate of row i of transaction t.
const orderKey = "'order-' || lpad((((t::bigint * 10 + i) * 7919) % 100000)::text, 6, '0')"

// backlog returns a statement that inserts n events in transactions of size rows. kind and key are SQL expressions for the
// aggregate type and ID of row i of transaction t.
func backlog(kind, key string, n, size, payload int) string {
	return fmt.Sprintf(`DO $do$ BEGIN FOR t IN 1..%d LOOP
		INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, tenant_id, payload, occurred_at)
		SELECT gen_random_uuid(), %[4]s, %[5]s, 'OrderPlaced', 'tenant-1',
			convert_to(rpad('{"order":' || (t::bigint * %[2]d + i) || ',"note":"', %[3]d - 2, 'x') || '"}', 'UTF8'), now()
		FROM generate_series(1, %[2]d) i; COMMIT; END LOOP; END $do$`, n/size, size, payload, kind, key)
}

const payloadSize = 214

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

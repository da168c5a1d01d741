package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// open makes an empty outbox and says how the peer is started.
func (p *peer) open(ctx context.Context, name, topic string) (*outboxed, func() (*process, error), error) {
	if p.flavor == "postgres" {
		return p.openPostgres(ctx, name, topic)
	}
	return p.openMySQL(ctx, name, topic)
}

func (p *peer) openPostgres(ctx context.Context, name, topic string) (*outboxed, func() (*process, error), error) {
	conn, err := p.database(ctx, name, name)
	if err != nil {
		return nil, nil, err
	}
	if err := p.fsync(ctx, false); err != nil {
		return nil, nil, err
	}
	db := &outboxed{
		fill: func(n int) error {
			err := fill(ctx, conn, n, 10)
			for _, statement := range []string{"RESET synchronous_commit", "CHECKPOINT"} {
				if err == nil {
					_, err = conn.Exec(ctx, statement)
				}
			}
			return err
		},
		insert: func(clock *stopwatch, i int) error { return insert(ctx, conn, clock, i, 1) },
		close:  func() error { return errors.Join(dropSlots(ctx, conn, []string{name}), conn.Close(ctx)) },
	}
	if p.name == "relay" {
		path, err := p.configure(name, name, topic, p.listen())
		return db, func() (*process, error) { return p.start(path) }, err
	}
	source, err := p.debeziumPostgres(name)
	if err != nil {
		return nil, nil, err
	}
	start, err := p.debezium(ctx, name, topic, source)
	return db, start, err
}

// debeziumPostgres reads the slot of a database that has its name.
func (s *stand) debeziumPostgres(name string) (string, error) {
	cfg, err := pgx.ParseConfig(s.pg.DSN(name, ""))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`connector.class=io.debezium.connector.postgresql.PostgresConnector
database.hostname=%s
database.port=%d
database.user=%s
database.password=%s
database.dbname=%s
plugin.name=pgoutput
slot.name=%[5]s
publication.name=%[5]s
publication.autocreate.mode=disabled
table.include.list=public.outbox
`, cfg.Host, cfg.Port, cfg.User, cfg.Password, name), nil
}

func (p *peer) openMySQL(ctx context.Context, name, topic string) (*outboxed, func() (*process, error), error) {
	m, err := p.mysql(ctx, p.flavor)
	if err != nil {
		return nil, nil, err
	}
	if err := m.fresh(ctx); err != nil {
		return nil, nil, err
	}
	conn, err := m.db.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	db := &outboxed{
		fill: func(n int) error { return m.fill(ctx, n, 10) },
		insert: func(clock *stopwatch, i int) error {
			clock.start(i, 1)
			key, payload := numbered(i)
			_, err := conn.ExecContext(ctx, insertMySQL, key, payload)
			return err
		},
		close: func() error { return errors.Join(conn.Close(), m.db.Close()) },
	}
	if p.name == "relay" {
		path, err := m.configure(name, topic, p.listen())
		return db, func() (*process, error) { return p.start(path, "earliest") }, err
	}
	source, err := m.debeziumSource()
	if err != nil {
		return nil, nil, err
	}
	start, err := p.debezium(ctx, name, topic, source)
	return db, start, err
}

func (m *mysqlStand) debeziumSource() (string, error) {
	cfg, err := mysql.ParseDSN(m.DSN(mysqlDatabase, ""))
	if err != nil {
		return "", err
	}
	host, port, _ := strings.Cut(cfg.Addr, ":")
	return fmt.Sprintf(`connector.class=io.debezium.connector.mysql.MySqlConnector
database.hostname=%s
database.port=%s
database.user=%s
database.password=%s
database.include.list=%s
database.server.id=4712
table.include.list=%[5]s.outbox
include.schema.changes=false
schema.history.internal=io.debezium.storage.file.history.FileSchemaHistory
schema.history.internal.file.filename=history
`, host, port, cfg.User, cfg.Passwd, mysqlDatabase), nil
}

// debeziumConfig has Debezium's outbox event router, with payloads as bytes. A poll interval of 10 ms instead of 500 shortens its
// latency; everything else is its default.
const debeziumConfig = `debezium.sink.type=kafka
debezium.sink.kafka.producer.bootstrap.servers=%[1]s
debezium.sink.kafka.producer.key.serializer=org.apache.kafka.common.serialization.StringSerializer
debezium.sink.kafka.producer.value.serializer=org.apache.kafka.common.serialization.ByteArraySerializer
debezium.format.key=simplestring
debezium.format.value=binary
debezium.transforms=outbox
debezium.transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
debezium.transforms.outbox.table.field.event.id=event_id
debezium.transforms.outbox.table.field.event.key=aggregate_id
debezium.transforms.outbox.route.by.field=aggregate_type
debezium.transforms.outbox.route.topic.replacement=%[2]s
quarkus.http.port=%[3]s
quarkus.log.console.json=false
debezium.source.topic.prefix=peer
debezium.source.snapshot.mode=no_data
debezium.source.poll.interval.ms=10
debezium.source.offset.storage=org.apache.kafka.connect.storage.FileOffsetBackingStore
debezium.source.offset.storage.file.filename=offsets
`

// debezium writes its configuration and says how it is started.
func (s *stand) debezium(ctx context.Context, name, topic, source string) (func() (*process, error), error) {
	dir := filepath.Join(s.dir, name)
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "config"), 0o750); err != nil {
		return nil, err
	}
	_, port, _ := strings.Cut(s.listen(), ":")
	var text bytes.Buffer
	fmt.Fprintf(&text, debeziumConfig, strings.Join(s.kafka.Bootstrap(), ","), topic, port)
	for line := range strings.Lines(source) {
		text.WriteString("debezium.source." + line)
	}
	if err := os.WriteFile(filepath.Join(dir, "config", "application.properties"), text.Bytes(), 0o600); err != nil {
		return nil, err
	}
	return func() (*process, error) {
		cmd, err := testenv.DebeziumServer(context.WithoutCancel(ctx), os.Stderr, dir, "-Xmx1g")
		if err != nil {
			return nil, err
		}
		return s.run(cmd, dir+".log")
	}, nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// bareSource is what a bare pipeline reads, and where it publishes: a log reader with sarama's AsyncProducer, as one writes them in an
// afternoon. It runs as a process of its own, so that its CPU time can be told.
type bareSource struct {
	Database          string // "postgres", or the flavor
	DSN               string
	Slot, Publication string // PostgreSQL's
	Topic             string
	Brokers           []string
}

const bareReady = "reading the log"

// startBare starts this program again as a bare pipeline.
func (s *stand) startBare(name string, b bareSource) (*process, error) {
	doc, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return s.run(exec.CommandContext(context.Background(), self, "-bare", string(doc)), filepath.Join(s.dir, name+".log")) // ended by stop
}

// runBare publishes until ctx ends.
func runBare(ctx context.Context, doc string) error {
	var b bareSource
	if err := json.Unmarshal([]byte(doc), &b); err != nil {
		return err
	}
	config := sarama.NewConfig()
	config.Producer.RequiredAcks, config.Producer.Idempotent, config.Net.MaxOpenRequests = sarama.WaitForAll, true, 1
	config.Producer.Return.Successes = true
	producer, err := sarama.NewAsyncProducer(b.Brokers, config)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var acknowledged atomic.Uint64
	go func() {
		for m := range producer.Successes() {
			acknowledged.Store(m.Metadata.(uint64))
		}
	}()
	go func() {
		for err := range producer.Errors() {
			stop(err)
		}
	}()
	send := func(key, value []byte, at uint64) {
		producer.Input() <- &sarama.ProducerMessage{Topic: b.Topic, Key: sarama.ByteEncoder(key), Value: sarama.ByteEncoder(value), Metadata: at}
	}
	if b.Database == "postgres" {
		err = b.readWAL(ctx, send, &acknowledged)
	} else {
		err = b.readBinlog(ctx, send)
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return errors.Join(cause, err)
	}
	return producer.Close()
}

func (b *bareSource) readWAL(ctx context.Context, send func(key, value []byte, at uint64), acknowledged *atomic.Uint64) error {
	conn, err := pgconn.Connect(ctx, b.DSN+"&replication=database")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	args := []string{"proto_version '1'", fmt.Sprintf("publication_names '%s'", b.Publication), "binary 'true'"}
	if err := pglogrepl.StartReplication(ctx, conn, b.Slot, 0, pglogrepl.StartReplicationOptions{PluginArgs: args}); err != nil {
		return err
	}
	fmt.Println(bareReady)
	const every = time.Second
	key, value := 0, 0
	for next := time.Now().Add(every); ; {
		if time.Now().After(next) {
			next = time.Now().Add(every)
			if err := pglogrepl.SendStandbyStatusUpdate(ctx, conn, pglogrepl.StandbyStatusUpdate{WALWritePosition: pglogrepl.LSN(acknowledged.Load())}); err != nil {
				return err
			}
		}
		until, cancel := context.WithDeadline(ctx, next)
		msg, err := conn.ReceiveMessage(until)
		cancel()
		if pgconn.Timeout(err) {
			continue
		}
		if err != nil {
			return err
		}
		data, ok := msg.(*pgproto3.CopyData)
		if !ok || data.Data[0] != pglogrepl.XLogDataByteID {
			continue
		}
		x, err := pglogrepl.ParseXLogData(data.Data[1:])
		if err != nil {
			return err
		}
		m, err := pglogrepl.Parse(x.WALData)
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *pglogrepl.RelationMessage:
			for i, c := range m.Columns {
				switch c.Name {
				case "aggregate_id":
					key = i
				case "payload":
					value = i
				}
			}
		case *pglogrepl.InsertMessage:
			send(m.Tuple.Columns[key].Data, m.Tuple.Columns[value].Data, uint64(x.WALStart))
		}
	}
}

func (b *bareSource) readBinlog(ctx context.Context, send func(key, value []byte, at uint64)) error {
	cfg, err := mysql.ParseDSN(b.DSN)
	if err != nil {
		return err
	}
	host, port, _ := strings.Cut(cfg.Addr, ":")
	var number uint16
	if _, err := fmt.Sscan(port, &number); err != nil {
		return err
	}
	syncer := replication.NewBinlogSyncer(replication.BinlogSyncerConfig{
		ServerID: 4712, Flavor: b.Database, Host: host, Port: number, User: cfg.User, Password: cfg.Passwd, Logger: slog.New(slog.DiscardHandler),
	})
	defer syncer.Close()
	set, err := gomysql.ParseGTIDSet(b.Database, "") // the binlog is reset before each run
	if err != nil {
		return err
	}
	streamer, err := syncer.StartSyncGTID(set)
	if err != nil {
		return err
	}
	fmt.Println(bareReady)
	const key, value = 2, 11 // the columns aggregate_id and payload
	for {
		event, err := streamer.GetEvent(ctx)
		if err != nil {
			return err
		}
		rows, ok := event.Event.(*replication.RowsEvent)
		if !ok || string(rows.Table.Table) != "outbox" {
			continue
		}
		for _, row := range rows.Rows {
			send(asBytes(row[key]), asBytes(row[value]), 0)
		}
	}
}

func asBytes(v any) []byte {
	if text, ok := v.(string); ok {
		return []byte(text)
	}
	return v.([]byte)
}

package binlog

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
	fake "github.com/go-mysql-org/go-mysql/server"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// statements80 are those statements of the relay's that MySQL 8.0.22 knows by its manual, with an answer of such a
// server: the names of the columns, then rows.
func statements80() map[string][][]any {
	return map[string][][]any{
		`^DO 1$`: nil,
		`^SHOW GLOBAL VARIABLES WHERE Variable_name IN \(`: variables80(),
		`^SHOW SESSION STATUS LIKE 'Ssl_version'$`:         {{"Variable_name", "Value"}, {"Ssl_version", []byte{}}},
		`^SHOW GRANTS$`:                                         {{"Grants"}, {"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `relay`@`%`"}},
		`^SHOW REPLICA STATUS$`:                                 {{"Replica_IO_State"}, {"Waiting for master to send event"}}, // SHOW SLAVE STATUS before 8.0.22
		`^SELECT CURRENT_USER\(\)$`:                             {{"CURRENT_USER()"}, {"relay@%"}},
		`^SELECT @@GLOBAL.server_id$`:                           {{"server_id"}, {"1"}},
		`^SELECT @@GLOBAL.gtid_executed, @@GLOBAL.gtid_purged$`: {{"executed", "purged"}, {serverA + ":1-9", serverA + ":1-2"}},
		`^SELECT @@server_uuid$`:                                {{"uuid"}, {serverA}},
		`^SELECT DATE_FORMAT\(UTC_TIMESTAMP\(\), `:              {{"now"}, {time.Now().UTC().Format(time.DateTime)}},
		`^SHOW MASTER STATUS$`:                                  {{"Binlog_Do_DB", "Binlog_Ignore_DB"}, {"", ""}},
		`FROM information_schema.tables WHERE`:                  {{"name", "type", "engine"}, {"shop.outbox", "BASE TABLE", "InnoDB"}},
		`FROM information_schema.partitions WHERE`:              {{"seconds"}, {"864000"}},
		`FROM information_schema.collations WHERE`:              {{"id", "name"}, {"45", "utf8mb4"}},
		`FROM information_schema.columns WHERE`:                 {{"a", "b", "c", "d", "e", "f"}, {"shop", "outbox", "event_id", "varbinary", "16", []byte{}}},
		`^SET @(master|slave)_`:                                 nil,
		`^SET (NAMES|autocommit|time_zone|sql_select_limit)`:    nil,
		`^SET SESSION wait_timeout = 10$`:                       nil,
		`^SELECT GET_LOCK\('cdc-relay.mysql.shop', 1\), CONNECTION_ID\(\), @@GLOBAL.server_id, @@GLOBAL.read_only$`: {{"locked", "id", "server_id", "read_only"}, {"1", "5", "1", "0"}},
	}
}

// variables80 have the names of 8.0.22: those of replicas were renamed in 8.0.26.
func variables80() [][]any {
	rows := [][]any{{"Variable_name", "Value"}}
	for name, value := range map[string]string{
		"version": "8.0.22", "log_bin": "ON", "gtid_mode": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL",
		"sync_binlog": "1", "innodb_flush_log_at_trx_commit": "1", "binlog_expire_logs_seconds": "2592000", "log_slave_updates": "ON",
		"slave_preserve_commit_order": "OFF", "slave_parallel_workers": "0", // the defaults
	} {
		rows = append(rows, []any{name, value})
	}
	return rows
}

// fakeServer answers known statements, and no others, and sends its binlog.
type fakeServer struct {
	fake.EmptyReplicationHandler

	known   map[string][][]any // by pattern: the names of the columns, then rows
	mu      sync.Mutex
	unknown []string
}

func (s *fakeServer) HandleQuery(query string) (*gomysql.Result, error) {
	for pattern, answer := range s.known {
		if !regexp.MustCompile(pattern).MatchString(query) {
			continue
		}
		if answer == nil {
			return gomysql.NewResultReserveResultset(0), nil
		}
		var names []string
		for _, name := range answer[0] {
			names = append(names, fmt.Sprint(name))
		}
		set, err := gomysql.BuildSimpleTextResultset(names, answer[1:])
		return gomysql.NewResult(set), err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unknown = append(s.unknown, query)
	return nil, gomysql.NewError(gomysql.ER_PARSE_ERROR, "You have an error in your SQL syntax near "+query)
}

func (s *fakeServer) HandleRegisterSlave([]byte) error { return nil }

func (s *fakeServer) HandleBinlogDump(gomysql.Position) (*replication.BinlogStreamer, error) {
	return s.HandleBinlogDumpGTID(nil)
}

func (s *fakeServer) HandleBinlogDumpGTID(*gomysql.MysqlGTIDSet) (*replication.BinlogStreamer, error) {
	streamer := replication.NewBinlogStreamer()
	first := eventOf(replication.ROTATE_EVENT, 0, "\x04\x00\x00\x00\x00\x00\x00\x00binlog.000001")
	err := streamer.AddEventToStreamer(&replication.BinlogEvent{RawData: first.raw})
	return streamer, err
}

func none(context.Context, cdc.Source) (cdc.Checkpoint, bool, error) {
	return cdc.Checkpoint{}, false, nil
}

// serve returns a server that ends with the test, and its address.
func serve(t *testing.T, version string, known map[string][][]any) (*fakeServer, string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	handler := &fakeServer{known: known}
	config := fake.NewServer(version, gomysql.DEFAULT_COLLATION_ID, gomysql.AUTH_NATIVE_PASSWORD, nil, nil)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				c, err := config.NewConn(conn, "relay", "", handler)
				for err == nil {
					err = c.HandleCommand()
				}
			}()
		}
	}()
	return handler, listener.Addr().String()
}

// MySQL 8.0.22 is accepted with one warning, and the relay asks it nothing that only newer servers know. No such
// server can be had for tests, so this one knows what the manual of 8.0 says.
func TestMySQL80(t *testing.T) {
	handler, address := serve(t, "8.0.22", statements80())
	o := Options{Options: mysql.Options{DSN: func(context.Context) (string, error) { return "relay@tcp(" + address + ")/shop", nil }, Tables: []string{"shop.outbox"}}, FromNow: true}
	var log bytes.Buffer
	s := New(o, slog.New(slog.NewTextHandler(&log, nil)), prometheus.NewRegistry())
	if _, from, err := s.Acquire(t.Context(), none); err != nil || string(from) != serverA+":1-9" {
		t.Errorf("%s, %v", from, err)
	}
	s.Release(t.Context())
	if n := strings.Count(log.String(), "MySQL 8.0.22 has all that the relay needs"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, &log)
	}
	found, tables := Check(t.Context(), o, none)
	severities := map[string]cdc.Severity{}
	for _, f := range found {
		if f.Severity == cdc.SeverityWarn || f.Severity == cdc.SeverityFail {
			severities[f.Subject] = f.Severity
		}
	}
	if !maps.Equal(severities, map[string]cdc.Severity{"server": cdc.SeverityWarn}) {
		t.Errorf("check finds %+v", found)
	}
	if tables["shop.outbox"] == nil || len(handler.unknown) > 0 {
		t.Errorf("tables %v, statements unknown to MySQL 8.0: %q", slices.Sorted(maps.Keys(tables)), handler.unknown)
	}
}

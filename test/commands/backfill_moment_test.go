package commands

import (
	"bytes"
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// more maps a table that has one row.
func (s *site) more() *site {
	s.t.Helper()
	s.sql("CREATE TABLE more (id bigint PRIMARY KEY, kind varchar(9) NOT NULL, body varchar(9) NOT NULL, at timestamp NOT NULL)", "INSERT INTO more VALUES (1, 'Paid', '{}', '2026-01-02')")
	s.config = "tables: [{name: more, columns: {event_id: id, event_type: kind, payload: body, created_at: at}}]\n" + s.config
	return s.replace("partitions: 3", "partitions: 1")
}

// The rows of a replica and the position of its primary are of different moments: events would be lost, or published twice.
func TestBackfillFromReplica(t *testing.T) {
	t.Parallel()
	onMySQL(t, func(s *site) {
		other := testenv.MySQLReplica(s.t, s.more().mysql, testenv.MySQLOptions{})
		s.says(2, "leads to another server than source.mysql.dsn", "setup", "--backfill", "--where", "1 = 1", "--owner-dsn", "root@tcp("+other.Addr()+")/"+s.name)
		s.says(3, "no checkpoint", "check")
		s.says(0, "published 1 row", "setup", "--backfill", "--where", "1 = 1", "--owner-dsn", "root@tcp("+s.addr()+")/"+s.name)
	})
}

// MariaDB releases the table when the session of a prepared transaction ends. Its rows are in the binlog then, and not in the table.
func TestBackfillWaitsForPreparedTransactions(t *testing.T) {
	t.Parallel()
	s := newMySQLSite(t, testenv.MariaDBFlavor).more()
	s.sql("XA START 'backfill'; INSERT INTO more VALUES (2, 'Paid', '{}', '2026-01-02'); XA END 'backfill'; XA PREPARE 'backfill'")
	t.Cleanup(func() { _ = s.mysql.Exec(context.WithoutCancel(t.Context()), "", "XA ROLLBACK 'backfill'") }) // other tests share the server
	s.config += "startup_timeout: 10s\n"
	s.says(1, `XA RECOVER shows "backfill"`, "setup", "--backfill", "--where", "1 = 1")
	s.sql("XA COMMIT 'backfill'")
	s.replace("startup_timeout: 10s\n", "").says(0, "published 2 rows", "setup", "--backfill", "--where", "1 = 1")
}

// The machine freezes, or is gone, while the tables are locked: writers go on after seconds, and the backfill begins again.
func TestBackfillFreezesWithLockedTables(t *testing.T) {
	t.Parallel()
	onMySQL(t, func(s *site) {
		r := s.more().heldBackfill("START TRANSACTION WITH CONSISTENT SNAPSHOT", func() {
			s.sql("SET lock_wait_timeout = 60; INSERT INTO more VALUES (2, 'Paid', '{}', '2026-01-02')")
		})
		if r.code != 0 || !strings.Contains(r.stdout, "published 2 rows") {
			s.t.Error(r)
		}
	})
}

// heldBackfill runs a backfill, and calls meanwhile before the server receives a request with that text.
func (s *site) heldBackfill(text string, meanwhile func()) result {
	s.t.Helper()
	proxy := testenv.Proxy(s.t, s.addr())
	s.replace(s.addr(), proxy.Addr())
	held := proxy.HoldBack(s.t, func(request []byte) bool { return bytes.Contains(request, []byte(text)) })
	done := make(chan result, 1)
	go func() { done <- s.run("setup", "--backfill", "--where", "1 = 1") }()
	select {
	case <-held.Caught():
	case r := <-done:
		s.t.Fatalf("it has ended before: %s", r)
	}
	meanwhile()
	testenv.Must(s.t, held.Release(s.t.Context()))
	return <-done
}

// A backfill that was killed has published some of the rows. A repair behind the last of them would publish what the poller has, too.
func TestRepairBehindUnfinishedBackfill(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		s.more()
		proxy := testenv.Proxy(s.t, s.addr())
		s.replace(s.addr(), proxy.Addr())
		held := proxy.HoldBack(s.t, func(request []byte) bool { return bytes.Contains(request, []byte("SELECT * FROM (")) })
		backfill := s.background("setup", "--backfill", "--where", "1 = 1")
		select {
		case <-held.Caught():
			backfill.signal(syscall.SIGKILL)
		case <-backfill.done:
			s.t.Fatalf("it has ended before: %q", backfill.lines)
		}
		proxy.Cut() // what the server knows of the client
		testenv.Must(s.t, proxy.Restore())
		for _, command := range []string{"run", "check"} {
			if r := s.run(command); r.code == 0 || !strings.Contains(r.stdout+r.stderr, "was interrupted") {
				t.Errorf("%s: %s", command, r)
			}
		}
		s.says(5, "was interrupted before it had published all of its rows", "repair")
		s.says(0, "published 1 row", "setup", "--backfill", "--where", "1 = 1")
	})
}

// A row that is not found any more where the binlog has gone on is counted.
func TestBackfillCountsRowsThatAreGone(t *testing.T) {
	t.Parallel()
	onMySQL(t, func(s *site) {
		s.more().sql("INSERT INTO more VALUES (2, 'Paid', '{}', '2026-01-02'), (3, 'Paid', '{}', '2026-01-02')")
		r := s.heldBackfill("SELECT * FROM (", func() {
			s.sql("DELETE FROM more WHERE id = 2", "UPDATE more SET at = '2026-01-03' WHERE id = 3")
		})
		if r.code != 0 || !strings.Contains(r.stdout, "published 1 row\ndid not find 2 rows: deleted, or given another ID or created_at") {
			s.t.Error(r)
		}
	})
}

// Where the rows have only the times at which events happened, their transactions do not tell what a repair by time leaves out.
func TestRepairOfBackdatedEvents(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		s.more().replace("created_at: at", "occurred_at: at").says(0, "", "setup", "--skip-existing")
		s.says(0, "no event happened more than 10m0s", "repair", "--since", "2026-01-02T03:04:05Z")
	})
}

// The role's settings do not end the session that keeps the snapshot.
func TestBackfillWithImpatientRole(t *testing.T) {
	t.Parallel()
	s := newSite(t).more()
	s.sql("ALTER DATABASE "+s.name+" SET idle_in_transaction_session_timeout = '1ms'", "INSERT INTO more SELECT i, 'Paid', '{}', '2026-01-02' FROM generate_series(2, 3000) i")
	s.says(0, "published 3000 rows", "setup", "--backfill", "--where", "1 = 1")
}

// A slot that is made while a backfill runs, or was interrupted, would leave out what is committed between the two slots.
func TestSetupBesideUnfinishedBackfill(t *testing.T) {
	t.Parallel()
	s := newSite(t).more()
	s.replace("postgres: {", "postgres: {slot: unfinished, ")
	left := "SELECT pg_create_logical_replication_slot('unfinished_repair', 'pgoutput')"
	s.sql(left)
	said := s.says(5, `has slot "unfinished_repair"`, "setup")
	s.says(0, "slot unfinished_repair: kept", "teardown", "--yes")
	s.says(0, "published 1 row", "setup", "--backfill", "--where", "1 = 1")
	s.says(0, "dropped", "teardown", "--yes")
	s.sql(left)
	drop, err := cdctest.Printed(said, "SELECT pg_drop_replication_slot")
	testenv.Must(t, err)
	s.sql(drop).says(0, "slot unfinished: created", "setup", "--skip-existing")
	s.says(0, "dropped", "teardown", "--yes")
	s.sql("SELECT pg_create_logical_replication_slot('unfinished_repair', 'test_decoding')", "INSERT INTO more VALUES (9, 'Paid', '{}', '2026-01-02')",
		"SELECT count(*) FROM pg_logical_slot_get_changes('unfinished_repair', NULL, NULL)").says(2, "another program reads", "setup", "--backfill", "--where", "1 = 1")
}

package commands

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// session runs commands, with input after a <, and compares commands and output with a golden file.
func session(t *testing.T, s *site, name string, steps ...string) {
	t.Helper()
	var text strings.Builder
	for _, step := range steps {
		command, typed, _ := strings.Cut(step, " < ")
		r := s.answer(typed+"\n", strings.Fields(command)...)
		text.WriteString("$ cdc-relay " + s.normal(step) + "\n" + r.String() + "\n")
	}
	golden(t, name, text.String())
}

// Each command prints what it created and what existed.
func TestSetupAndTeardown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	session(t, s, "setup.txt",
		"setup --ahead 2", "setup", "schema apply", "check", "position show",
		"teardown --drop-table < no", "teardown < no", "teardown --drop-table < outbox", "teardown --yes", "position reset", "config validate")
}

func TestSetupPrintRunsNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	session(t, s, "print.txt", "setup --print", "teardown --print --drop-table", "schema print --payload jsonb --partition none",
		"schema print --partition none --format golang-migrate --out "+s.dir, "schema print --format xml", "schema print --ahead 4000")
	s.says(3, "", "check") // nothing was created
	files, err := os.ReadDir(s.dir)
	if err != nil || len(files) != 3 {
		t.Errorf("%v, %v: want the configuration and two migrations", files, err)
	}
}

// An operator that fits a question to the catalog better than the catalog's own would run with the rights of who asks, also the owner's.
func TestOperatorsInTheSearchPathAreNotUsed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.sql("CREATE FUNCTION public.joined(name, text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'run by %', current_user; END $$",
		"CREATE OPERATOR public.|| (LEFTARG = name, RIGHTARG = text, FUNCTION = public.joined)")
	for _, command := range []string{"setup", "check", "retention list", "teardown --drop-table --yes"} {
		s.says(0, "", strings.Fields(command)...)
	}
}

// check passes after the output of setup --print was run by exactly the roles that it names.
func TestPrintedSQLPassesCheck(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.sql("CREATE ROLE printed_owner LOGIN", "CREATE ROLE printed_relay LOGIN",
		"GRANT CREATE ON DATABASE "+s.name+" TO printed_owner", "GRANT CREATE ON SCHEMA public TO printed_owner")
	s.replace("postgres@", "printed_relay@")
	sections := strings.Split(s.raw("", "setup", "--print").stdout, "-- To be run by ")
	users := map[string]string{"an administrator": "", "the owner": "printed_owner", "the relay": "printed_relay"}
	if len(sections) != 1+len(users) {
		t.Fatalf("%d sections: %q", len(sections)-1, sections)
	}
	for _, section := range sections[1:] {
		for whom, user := range users {
			if strings.HasPrefix(section, whom) {
				s.as(user, "-- "+section)
			}
		}
	}
	for _, command := range []string{"check", "setup"} {
		if r := s.run(command); r.code != 0 || strings.Contains(r.stdout, ": created at") {
			t.Errorf("%s: %s", command, r)
		}
	}
}

// as runs SQL as another role.
func (s *site) as(user, sql string) {
	s.t.Helper()
	conn, err := pgconn.Connect(s.t.Context(), s.pg.DSN(s.name, user))
	testenv.Must(s.t, err)
	defer func() { _ = conn.Close(s.t.Context()) }()
	if _, err := conn.Exec(s.t.Context(), sql).ReadAll(); err != nil {
		s.t.Fatalf("as %s: %v\n%s", user, err, sql)
	}
}

// setup makes what an administrator's publication lacks, as long as nothing was written. Where rows are there, or were, it makes no slot
// behind them unless it is told to, whoever has inserted them.
func TestSetupSkipsNoRows(t *testing.T) {
	t.Parallel()
	s := newSite(t).setup()
	s.dropSlot()
	s.setup()
	s.says(2, "--skip-existing and --backfill cannot be combined", "setup", "--skip-existing", "--backfill")
	s.insert(1).dropSlot()
	s.says(5, "table public.outbox has rows", "setup")
	s.sql("DELETE FROM outbox")
	eventually(t, func() error { // the server counts after the commit
		return s.pg.Exec(t.Context(), s.name, "SELECT 1 / sum(n_tup_ins) FROM pg_stat_user_tables WHERE relname LIKE '%outbox%'")
	})
	s.follows(0, "created", s.says(5, "were deleted", "setup"), "setup --skip-existing")
}

// A backfill that ends before it has published every row leaves nothing from which a run could go on: it begins again.
func TestInterruptedBackfill(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		s.sql("CREATE TABLE jobs (id int PRIMARY KEY, kind varchar(9), at "+s.timeType()+")", "INSERT INTO jobs VALUES (1, 'Placed', '2026-01-02 03:04:05'), (2, NULL, '2026-01-02 03:04:06')")
		s.config = "tables: [{name: jobs, columns: {event_id: {template: \"job-${id}\"}, event_type: kind, aggregate_id: {const: one}, payload: id, created_at: at}}]\n" + s.config
		s.says(1, "kind is NULL", "setup", "--backfill")
		s.says(5, "was interrupted", "setup")
		s.says(3, "was interrupted", "check")
		s.says(5, "was interrupted", "run")
		s.sql("UPDATE jobs SET kind = 'Paid' WHERE id = 2")
		s.says(0, "published 2 rows", "setup", "--backfill")
		relay := s.start()
		relay.await("msg=leading")
		s.sql("INSERT INTO jobs VALUES (3, 'Placed', '2026-01-02 03:04:07')")
		last := s.consume(s.name, 3)[2]
		if string(last.Value) != "3" {
			t.Errorf("the last record is %s", last.Value)
		}
	})
}

// A table with rows that comes to a publication which a slot reads needs a word: nothing would publish them, nor what a transaction that
// is open has inserted.
func TestAddedTableWithRows(t *testing.T) {
	t.Parallel()
	s := newSiteOn(t, testenv.Postgres(t, testenv.PostgresOptions{})).setup() // no other test waits for the transaction
	s.sql("CREATE TABLE jobs (id int PRIMARY KEY, at timestamptz)")
	s.config = "tables: [{name: outbox}, {name: jobs, columns: {event_id: {template: \"job-${id}\"}, event_type: {const: Placed}, payload: id, created_at: at}}]\n" + s.config
	open := s.connect()
	defer func() { _ = open.Close(t.Context()) }()
	if _, err := open.Exec(t.Context(), "BEGIN; INSERT INTO jobs VALUES (1, now())"); err != nil {
		t.Fatal(err)
	}
	s.says(1, "a table is in use by other transactions (open: PID", "setup")
	if _, err := open.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	said := s.says(5, "table public.jobs has rows and is not in publication", "setup")
	s.follows(0, "completed", said, "setup --skip-existing")
	s.follows(0, "1 event", said, "replay --table")
	s.says(0, "exists", "setup")
}

// While another transaction is open a new slot waits for it: setup says so, and leaves nothing behind when it is interrupted. A slot that is
// being made all the same is no slot yet, for check, run and setup. What is committed before it has a position is not skipped.
func TestSetupWaitsForTransactions(t *testing.T) {
	t.Parallel()
	s := newSiteOn(t, testenv.Postgres(t, testenv.PostgresOptions{})).setup() // no other test waits for the transaction
	s.dropSlot()
	open := s.connect()
	defer func() { _ = open.Close(t.Context()) }()
	query := func(sql string) string {
		var out string
		if err := open.QueryRow(t.Context(), sql).Scan(&out); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		return out
	}
	if _, err := open.Exec(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	pid := query("SELECT pg_backend_pid() || left(pg_current_xact_id()::text, 0)")
	setup, _ := s.waitingSetup("PID " + pid)
	testenv.Must(t, setup.Process.Signal(syscall.SIGINT))
	if err := setup.Wait(); err == nil {
		t.Error("setup was not interrupted")
	}
	if slots := query("SELECT count(*)::text FROM pg_replication_slots"); slots != "0" {
		t.Errorf("%s slots are left", slots)
	}

	left := s.connect() // as a setup that was killed leaves it
	made := make(chan error, 1)
	go func() {
		_, err := left.Exec(t.Context(), "SELECT pg_create_logical_replication_slot('"+s.slot()+"', 'pgoutput')")
		made <- errors.Join(err, left.Close(t.Context()))
	}()
	eventually(t, func() error {
		if query("SELECT count(*)::text FROM pg_replication_slots") == "0" {
			return errors.New("no slot yet")
		}
		return nil
	})
	s.says(3, "has no position yet", "check")
	setup, lines := s.waitingSetup("PID " + pid)
	s.insert(1)
	if _, err := open.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-made; err != nil {
		t.Error(err)
	}
	for lines.Scan() { // to its end
	}
	if err := setup.Wait(); err == nil || setup.ProcessState.ExitCode() != 5 {
		t.Errorf("setup: %v", err)
	}
	s.says(5, "has rows", "setup")
	s.says(0, "created", "setup", "--skip-existing")
}

// connect returns a connection of a superuser.
func (s *site) connect() *pgx.Conn {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.pg.DSN(s.name, ""))
	testenv.Must(s.t, err)
	return conn
}

// waitingSetup starts setup and reads what it prints until that names what it waits for.
func (s *site) waitingSetup(who string) (*exec.Cmd, *bufio.Scanner) {
	s.t.Helper()
	cmd := s.command("setup")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	testenv.Must(s.t, err)
	s.t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), who) {
			return cmd, lines
		}
	}
	s.t.Fatalf("setup ended without a word of %s", who)
	return nil, nil
}

// The relay's role creates the slot, the owner everything else, and the relay's role may read the table.
func TestOwnerCreatesTheTable(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.sql("CREATE ROLE owning LOGIN", "CREATE ROLE owned_relay LOGIN REPLICATION",
		"GRANT CREATE ON DATABASE "+s.name+" TO owning", "GRANT CREATE ON SCHEMA public TO owning")
	s.replace("postgres@", "owned_relay@")
	s.says(2, "--owner-dsn", "setup")
	s.says(2, `leads to database "template1", and the configuration to`, "setup", "--owner-dsn", s.pg.DSN("template1", "owning"))
	s.says(2, "is for another kind of database", "setup", "--owner-dsn", "mysql://owning@db/orders")
	s.says(0, "", "setup", "--owner-dsn", s.pg.DSN(s.name, "owning"))
	s.as("owned_relay", "SELECT count(*) FROM outbox")
	s.says(2, "--owner-dsn", "teardown", "--drop-table", "--yes")
	s.env = []string{"CDC_RELAY_OWNER_DSN=" + s.pg.DSN(s.name, "owning")}
	reachable := s.config
	s.replace(redis.Addr(), "127.0.0.1:1")
	s.says(1, "", "teardown", "--drop-table", "--yes") // without Redis
	s.config = reachable
	s.says(0, "", "check") // nothing is gone
	s.says(0, "", "teardown", "--drop-table", "--yes")
}

// A table of other software is published, and never created or dropped.
func TestTableOfOtherSoftwareIsNeverDropped(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.config = "tables: [{name: shop.events, columns: {event_id: id, event_type: kind, payload: body}}]\n" + s.config
	s.says(2, "", "setup")
	s.sql("CREATE SCHEMA shop", "CREATE TABLE shop.events (id bigint PRIMARY KEY, kind text NOT NULL, body json NOT NULL)")
	session(t, s, "foreign.txt", "setup", "check", "teardown --drop-table --yes")
	s.sql("SELECT FROM shop.events")
}

// PostgreSQL 18 has failover slots, and can invalidate idle slots.
func TestSlotOptionsOfPostgreSQL18(t *testing.T) {
	t.Parallel()
	pg := testenv.Postgres(t, testenv.PostgresOptions{Version: 18, Settings: map[string]string{
		"idle_replication_slot_timeout": "1h", "max_slot_wal_keep_size": "1GB",
	}})
	s := newSiteOn(t, pg)
	s.sql("SELECT pg_create_physical_replication_slot('standby')").setup().dropSlot()
	s.sql("SELECT pg_create_logical_replication_slot('cdc_relay_" + s.name + "', 'pgoutput')")
	first := s.run("check")
	s.dropSlot()
	s.setup()
	second := s.run("check")
	golden(t, "newer_server.txt", first.String()+"\n"+second.String())
}

// check and run refuse a server that takes the relay for a synchronous standby. check warns of a failover slot that does not wait for the
// standbys that commits wait for, also if these read from no slot.
func TestSynchronousStandbyNames(t *testing.T) {
	t.Parallel()
	pg := testenv.Postgres(t, testenv.PostgresOptions{Version: 17, Settings: map[string]string{
		"synchronous_standby_names": "*", "synchronous_commit": "local",
	}})
	s := newSiteOn(t, pg).setup()
	check := s.run("check")
	const refused = "synchronous_standby_names matches the relay itself"
	for _, want := range []string{"fail  limits: " + refused, `warn  failover: slot "SLOT" may run ahead of the standbys`} {
		if check.code != 3 || !strings.Contains(check.stdout, want) {
			t.Errorf("want %s\n%s", want, check)
		}
	}
	s.says(2, refused, "run")
	if r := s.replace("postgres: {", "postgres: {wait_until_visible: false, ").run("check"); strings.Contains(r.stdout, refused) {
		t.Errorf("without the wait: %s", r)
	}
}

// On a server that requires TLS, both connections, for queries and for replication, use TLS as configured by the dsn or by
// source.postgres.tls, and check reports it.
func TestTLSToPostgreSQL(t *testing.T) {
	t.Parallel()
	pg := testenv.Postgres(t, testenv.PostgresOptions{TLS: true, HBA: []string{"hostssl all all 127.0.0.1/32 trust"}})
	s := newSiteOn(t, pg).setup()
	section := func(rest string) string {
		return fmt.Sprintf("postgres: {dsn: %q, tls: {ca: %q%s}}", "postgres://postgres@"+pg.Addr()+"/"+s.name, pg.Certs.CAFile, rest)
	}
	const (
		answers    = `connection: PostgreSQL N at PGHOST answers: database "NAME", role "postgres", TLS 1.3`
		unverified = "info  " + answers + " without verification of the server's certificate. Fix: set source.postgres.tls, with the server's CA in ca."
	)
	require := fmt.Sprintf("postgres: {dsn: %q}", "postgres://postgres@"+pg.Addr()+"/"+s.name+"?sslmode=require")
	for _, way := range []struct {
		name, source, says string
		code               int
	}{
		{"verified by the dsn", fmt.Sprintf("postgres: {dsn: %q}", pg.DSN(s.name, "")), "ok    " + answers + ".", 0},
		{"not verified by the dsn", require, unverified, 0},
		{"verified by the section", section(""), "ok    " + answers + ".", 0},
		{"not verified by the section", section(", insecure_skip_verify: true"), unverified, 0},
		{"certificate for another name", section(", server_name: elsewhere"), "fail  connection: TLS to PostgreSQL at PGHOST failed (x509: ", 3},
	} {
		r := s.configure(way.source).run("check")
		if r.code != way.code || !strings.Contains("\n"+r.stdout, "\n"+way.says) {
			t.Errorf("%s: want %s\n%s", way.name, way.says, r)
		}
	}
	relay := s.configure(section("")).insert(1).start()
	s.published(relay.leading(), 1)
}

// setup, check, run and teardown on every supported version of PostgreSQL, and the error for a role without REPLICATION. Version 19 needs
// no wal_level = logical.
func TestEveryPostgreSQLVersion(t *testing.T) {
	for _, version := range []int{14, 16, 17, 19} {
		t.Run(strconv.Itoa(version), func(t *testing.T) {
			t.Parallel()
			settings := map[string]string{}
			if version >= 19 {
				settings["wal_level"] = "replica"
			}
			s := newSiteOn(t, testenv.Postgres(t, testenv.PostgresOptions{Version: version, Settings: settings}))
			s.says(3, "ok    server: wal_level is ", "check")
			s.setup()
			s.says(0, "", "check")
			relay := s.insert(1).start()
			s.published(relay.leading(), 1)
			relay.stops()
			s.sql("CREATE ROLE onlooker LOGIN").replace("postgres@", "onlooker@")
			s.says(2, `role "onlooker" may not replicate (`, "run")
			s.replace("onlooker@", "postgres@")
			s.says(0, "", "teardown", "--drop-table", "--yes")
		})
	}
}

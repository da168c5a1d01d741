package outbox_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// TestPostgres runs all generated SQL on every supported version.
func TestPostgres(t *testing.T) {
	for version := 14; version <= 19; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			pg := testenv.Postgres(t, testenv.PostgresOptions{Version: version})
			t.Run("keywords", func(t *testing.T) { testKeywords(t, pg) })
			t.Run("table", func(t *testing.T) { testTable(t, pg) })
			t.Run("partitions", func(t *testing.T) { testPartitions(t, pg) })
			t.Run("odd names", func(t *testing.T) { testOddNames(t, pg) })
		})
	}
}

// testKeywords creates a table with a column for every keyword of PostgreSQL.
func testKeywords(t *testing.T, pg *testenv.PostgresServer) {
	t.Helper()
	conn := database(t, pg, "keywords", "postgres")
	rows, err := conn.Query(t.Context(), "SELECT word FROM pg_get_keywords()")
	testenv.Must(t, err)
	words, err := pgx.CollectRows(rows, pgx.RowTo[string])
	testenv.Must(t, err)
	for i, word := range words {
		words[i] = outbox.Quote(word) + " int"
	}
	exec(t, conn, "CREATE TABLE words ("+strings.Join(words, ", ")+")")
}

// testTable creates every kind of table twice and drops it.
func testTable(t *testing.T, pg *testenv.PostgresServer) {
	t.Helper()
	conn := database(t, pg, "kinds", "postgres")
	for _, payload := range []outbox.PayloadType{outbox.PayloadBytea, outbox.PayloadText, outbox.PayloadJSONB} {
		for _, partition := range []outbox.Partition{outbox.PartitionDaily, outbox.PartitionNone} {
			name := outbox.Name{Schema: "public", Table: fmt.Sprintf("outbox_%s_%s", payload, partition)}
			s := outbox.PostgresTable(outbox.TableOptions{Name: name, Payload: payload, Partition: partition, From: day(), Ahead: 2})
			files, err := s.Files(outbox.FormatGolangMigrate, day())
			testenv.Must(t, err)
			exec(t, conn, files[0].Text) // in one go, as golang-migrate does
			apply(t, conn, s.Up)
			exec(t, conn, "INSERT INTO "+name.SQL()+" (event_id, aggregate_type, aggregate_id, event_type, payload, occurred_at) "+
				"VALUES (gen_random_uuid(), 'Order', '1', 'placed', '{}', now())")
			if got := query(t, conn, "SELECT pg_typeof(payload) || ' ' || content_type FROM "+name.SQL()); got != string(payload)+" application/json" {
				t.Errorf("%s: %s", name, got)
			}
			exec(t, conn, files[1].Text)
			apply(t, conn, s.Down)
		}
	}
	if got := query(t, conn, "SELECT count(*) FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace "+
		"WHERE relname LIKE 'outbox%' OR nspname = 'cdc_relay'"); got != "0" {
		t.Errorf("%s relations are left", got)
	}
}

// testPartitions checks which partition rows are in, and that a second run adds missing partitions.
func testPartitions(t *testing.T, pg *testenv.PostgresServer) {
	t.Helper()
	conn := database(t, pg, "partitions", "postgres")
	exec(t, conn, "SET timezone = 'America/New_York'") // changes clocks on 2026-03-08
	from := time.Date(2026, 3, 7, 1, 0, 0, 0, time.UTC)
	name := outbox.Name{Schema: "public", Table: "outbox"}
	script := func(ahead int) outbox.Script {
		return outbox.PostgresTable(outbox.TableOptions{Name: name, From: from, Ahead: ahead})
	}
	apply(t, conn, script(1).Up)
	exec(t, conn, "CREATE TABLE cdc_relay.public_outbox_20260309 (LIKE public.outbox INCLUDING ALL)") // created, not attached
	apply(t, conn, script(3).Up)
	testWritersGoOn(t, conn, connect(t, pg, "partitions", "postgres"), script(4).Up)
	apply(t, conn, script(4).Up)
	for at, want := range map[string]string{
		"2026-03-06 23:59:59.999999+00": outbox.PostgresDefaultPartition(name).String(),
		"2026-03-07 00:00:00+00":        outbox.PostgresPartition(name, from).String(),
		"2026-03-08 23:59:59.999999+00": "cdc_relay.public_outbox_20260308",
		"2026-03-09 00:00:00+00":        "cdc_relay.public_outbox_20260309",
		"2026-03-10 12:00:00+00":        "cdc_relay.public_outbox_20260310",
		"2026-03-11 12:00:00+00":        "cdc_relay.public_outbox_20260311",
		"2026-03-12 00:00:00+00":        "cdc_relay.public_outbox_default",
	} {
		got := query(t, conn, insert(at)+" RETURNING tableoid::regclass")
		if got != want {
			t.Errorf("%s went to %s, want %s", at, got, want)
		}
		tag, err := conn.Exec(t.Context(), insert(at)+" ON CONFLICT (event_id, created_at) DO NOTHING")
		if err != nil || tag.RowsAffected() != 0 {
			t.Errorf("repeated at %s: %s, %v", at, tag, err)
		}
	}
	if got := query(t, conn, "SELECT count(*) FROM pg_constraint WHERE conname = 'bound'"); got != "0" {
		t.Errorf("%s checks are left", got)
	}
	if got := query(t, conn, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'public.outbox'::regclass"); got != "6" {
		t.Errorf("%s partitions", got)
	}
}

// testWritersGoOn creates partitions while one writer's transaction is open, and lets another writer insert before they are
// committed.
func testWritersGoOn(t *testing.T, conn, writer *pgx.Conn, statements []outbox.Statement) {
	t.Helper()
	exec(t, writer, "SET lock_timeout = '5s'; BEGIN; "+insert("2026-03-07 01:00+00"))
	exec(t, conn, "SET lock_timeout = '5s'; BEGIN")
	apply(t, conn, statements)
	exec(t, writer, "COMMIT; "+insert("2026-03-07 02:00+00"))
	exec(t, conn, "COMMIT")
}

// insert returns an INSERT of a row whose ID depends only on its time.
func insert(createdAt string) string {
	return fmt.Sprintf("INSERT INTO public.outbox (event_id, aggregate_type, aggregate_id, event_type, occurred_at, created_at) "+
		"VALUES (md5('%[1]s')::uuid, 'Order', '1', 'placed', now(), '%[1]s')", createdAt)
}

// testOddNames runs all generated SQL with names that must be quoted.
func testOddNames(t *testing.T, pg *testenv.PostgresServer) {
	t.Helper()
	conn := database(t, pg, "odd", "postgres")
	schema, role := `My "own" $$`, `Re'lay "x"`
	exec(t, conn, "CREATE SCHEMA "+outbox.Quote(schema)+"; CREATE ROLE "+outbox.Quote(role)+" LOGIN")
	long := outbox.Name{Schema: schema, Table: strings.Repeat("ö", 31)}
	tables := []outbox.Name{{schema, "order"}, {schema, "100% it's\\"}, long}
	options := outbox.SetupOptions{Read: tables, Publication: `Pub"'$$`, Slot: "odd_slot", Failover: pg.Version >= 17, Role: role}
	for _, name := range tables {
		options.Make = append(options.Make, outbox.TableOptions{Name: name, From: day(), Ahead: 1})
	}
	runners := map[outbox.Runner]*pgx.Conn{
		outbox.RunnerAdmin: conn, outbox.RunnerOwner: conn, outbox.RunnerRelay: connect(t, pg, "odd", role),
	}
	runSteps(t, runners, outbox.PostgresSetup(options))
	runSteps(t, runners, outbox.PostgresSetup(options))
	if got := query(t, conn, "SELECT count(*) FROM pg_tables WHERE schemaname = 'cdc_relay' AND tablename = '"+
		outbox.PostgresPartition(long, day()).Table+"'"); got != "1" {
		t.Errorf("the partition of a long name has another name")
	}
	runSteps(t, runners, outbox.PostgresTeardown(options.Publication, "odd_slot", tables[:1]))
	if got := query(t, conn, "SELECT count(*) FROM pg_inherits JOIN pg_class ON oid = inhrelid WHERE relkind = 'r'"); got != "6" {
		t.Errorf("%s partitions of the other tables", got)
	}
	runSteps(t, runners, outbox.PostgresTeardown(options.Publication, "odd_slot", tables))
	if got := query(t, conn, "SELECT (SELECT count(*) FROM pg_replication_slots) + (SELECT count(*) FROM pg_publication) + "+
		"(SELECT count(*) FROM pg_namespace WHERE nspname = 'cdc_relay') + (SELECT count(*) FROM pg_tables WHERE schemaname LIKE 'My%')"); got != "0" {
		t.Errorf("%s objects are left", got)
	}
}

func runSteps(t *testing.T, runners map[outbox.Runner]*pgx.Conn, steps outbox.Steps) {
	t.Helper()
	for _, step := range steps {
		apply(t, runners[step.Runner], step.Statements)
	}
}

func apply(t *testing.T, conn *pgx.Conn, statements []outbox.Statement) {
	t.Helper()
	for _, s := range statements {
		exec(t, conn, s.String())
	}
}

// database creates a database and connects to it.
func database(t *testing.T, pg *testenv.PostgresServer, name, user string) *pgx.Conn {
	t.Helper()
	testenv.Must(t, pg.CreateDatabase(t.Context(), name))
	return connect(t, pg, name, user)
}

func connect(t *testing.T, pg *testenv.PostgresServer, name, user string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(pg.DSN(name, user))
	testenv.Must(t, err)
	config.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) {}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	testenv.Must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// exec runs SQL with the simple protocol, which allows several statements.
func exec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%v in\n%s", err, sql)
	}
}

// query returns the single value of a query as text.
func query(t *testing.T, conn *pgx.Conn, sql string) string {
	t.Helper()
	results, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatalf("%v in\n%s", err, sql)
	}
	return string(results[0].Rows[0][0])
}

package commands

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// check warns if the daily partitions reach less than 7 days ahead, and schema apply fixes it.
func TestCheckWarnsOfFewPartitions(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		fewPartitions(newSite(t), "public.outbox")
	})
	onMySQL(t, func(s *site) { fewPartitions(s, s.name+".outbox") })
}

func fewPartitions(s *site, table string) {
	s.t.Helper()
	warns := "warn  partitions: daily partitions of " + s.normal(table) + " reach "
	for _, step := range []struct {
		command string
		warned  bool
	}{
		{"schema apply --ahead 3", true},
		{"schema apply --ahead 6", true}, // the last day ends in less than seven
		{"schema apply --ahead 7", false},
	} {
		if r := s.run(strings.Fields(step.command)...); r.code != 0 {
			s.t.Fatalf("%s: %s", step.command, r)
		}
		s.run("setup")
		if r := s.run("check"); r.code != 0 || strings.Contains(r.stdout, warns) != step.warned {
			s.t.Errorf("after %s: %s", step.command, r)
		}
	}
}

// says runs a command, checks its exit code and a part of its output, and returns the output.
func (s *site) says(code int, part string, args ...string) string {
	s.t.Helper()
	r := s.run(args...)
	if r.code != code || !strings.Contains(r.stdout+r.stderr, part) {
		s.t.Errorf("%s: want exit %d and %q; %s", args, code, part, r)
	}
	return r.stdout + r.stderr
}

// follows is says for the command that a message says to type.
func (s *site) follows(code int, part, message, start string) {
	s.t.Helper()
	args, err := cdctest.PrintedCommand(s.t.Context(), message, start)
	if err != nil {
		s.t.Fatal(err)
	}
	s.says(code, part, args...)
}

// partitions run makes days and removes old ones once the slot has passed them: through the function that setup makes, or
// without it as the table's owner.
func TestPartitionsRun(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const maintained = "partitions: {ahead: 8, ttl: 2d}\n"
	s.config += maintained
	s.sql("CREATE ROLE keeping LOGIN REPLICATION", "CREATE ROLE owning_parts LOGIN",
		"GRANT CREATE ON DATABASE "+s.name+" TO owning_parts", "GRANT CREATE ON SCHEMA public TO owning_parts")
	s.replace("postgres@", "keeping@")
	s.env = []string{"CDC_RELAY_OWNER_DSN=" + s.pg.DSN(s.name, "owning_parts")}
	s.follows(0, "created", s.says(2, "table public.outbox does not exist", "replay", "--id", eventID(1)), "setup")
	s.as("owning_parts", "DROP TABLE outbox CASCADE")
	s.follows(0, "created", s.says(1, "does not exist or has no partitions", "partitions", "run"), "setup")
	s.replace(maintained, "").says(0, "", "check")
	s.config += maintained
	s.says(0, "until", "partitions", "list")
	s.as("owning_parts", "DROP TABLE outbox CASCADE")
	s.oldDays("owning_parts", 4)
	s.setup().says(0, `role "keeping" may maintain the partitions of public.outbox`, "check")
	s.says(0, "would take out cdc_relay.public_outbox_", "partitions", "run", "--dry-run")
	s.says(2, "--yes", "partitions", "run", "--ttl", "1h")
	s.replace("ttl: 2d", "ttl: 2d, drop: false").says(0, `change="taken out"`, "partitions", "run")
	s.says(0, "taken out, not relayed yet", "partitions", "list")
	s.as("owning_parts", "DROP FUNCTION cdc_relay.public_outbox_maintain")
	s.sql("SELECT pg_replication_slot_advance('" + s.slot() + "', pg_current_wal_lsn())")
	s.replace(", drop: false", "")
	owner := s.env
	s.env = nil
	said := s.says(1, "run `cdc-relay setup`", "partitions", "run")
	s.says(0, "may not call", "check")
	s.env = owner
	s.follows(0, "change=dropped", said, "partitions run")
	s.env = nil
	s.says(2, "--owner-dsn", "setup")
	s.env = owner
	s.follows(0, "", said, "setup")
	s.says(0, "nothing is left to do", "partitions", "run")
	s.youngDayOfPostgres(owner)
	s.as("owning_parts", "ALTER TABLE outbox RENAME TO away")
	said = s.says(2, "is a partition of public.away", "setup")
	_, back, _ := strings.Cut(said, "rename it back with `")
	back, _, _ = strings.Cut(back, "`")
	s.as("owning_parts", strings.Replace(back, " NAME", " outbox", 1))
	s.says(0, "", "check")
	s.as("owning_parts", "DROP TABLE outbox CASCADE")
	s.follows(0, "created", s.says(3, "table public.outbox does not exist in this database", "check"), "setup")
	relay := s.insert(2).start()
	s.published(relay.leading(), 2)
}

// youngDayOfPostgres takes out yesterday, which the relay's role does not drop before it is a day old, and the owner does. Its row is
// behind the slot by then.
func (s *site) youngDayOfPostgres(owner []string) {
	s.t.Helper()
	s.oldDays("owning_parts", 1)
	s.insert(1).sql("INSERT INTO outbox SELECT * FROM json_populate_record((SELECT outbox FROM outbox), json_build_object('created_at', date_trunc('day', now()) - interval '1 second'))")
	s.env = nil
	relayed := "SELECT pg_replication_slot_advance('" + s.slot() + "', pg_current_wal_lsn())"
	s.sql(relayed).run("partitions", "run", "--ttl", "1s", "--yes")
	said := s.sql(relayed).says(1, "wait until it is a day old", "partitions", "run", "--ttl", "1s", "--yes")
	s.env = owner
	s.follows(0, "nothing is left to do", said, "partitions run") // it is not past the TTL of the configuration
	s.says(0, "change=dropped", "partitions", "run", "--ttl", "1s", "--yes")
	s.wantRowsOfPostgres(1)
}

// wantRowsOfPostgres counts the rows of the outbox.
func (s *site) wantRowsOfPostgres(want int) {
	s.t.Helper()
	s.sql(fmt.Sprintf("DO $$ BEGIN IF (SELECT count(*) FROM outbox) <> %d THEN RAISE 'there are %% rows, want %d', (SELECT count(*) FROM outbox); END IF; END $$", want, want))
}

// oldDays makes a table with partitions for the last days, by its owner.
func (s *site) oldDays(owner string, days int) {
	s.t.Helper()
	old, err := outbox.PostgresTable(outbox.TableOptions{Name: outbox.Name{Schema: "public", Table: "outbox"}, From: time.Now().AddDate(0, 0, -days), Ahead: 1})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, st := range old.Up {
		s.as(owner, st.SQL)
	}
}

// Partitions of tables that several roles own are in one schema. A role that may not use it is told what to grant.
func TestSchemaOfAnotherRole(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	shared := s.config
	for _, owner := range []string{"first_parts", "second_parts"} {
		s.sql("CREATE ROLE "+owner+" LOGIN", "GRANT CREATE ON DATABASE "+s.name+" TO "+owner, "CREATE SCHEMA "+owner+" AUTHORIZATION "+owner)
		s.config = shared + "tables: [{name: " + owner + ".outbox}]\n"
		s.replace("postgres: {", "postgres: {slot: "+owner+", publication: "+owner+", ")
		s.env = []string{"CDC_RELAY_OWNER_DSN=" + s.pg.DSN(s.name, owner)}
		if owner == "first_parts" {
			s.says(0, "done", "setup")
			continue
		}
		said := s.says(2, `role "second_parts" may not use schema cdc_relay, which another role owns`, "setup")
		grant, err := cdctest.Printed(said, "GRANT USAGE")
		if err != nil {
			t.Fatal(err)
		}
		s.as("first_parts", grant)
		s.says(0, "done", "setup")
		s.says(0, "second_parts.outbox: dropped", "teardown", "--table", "--yes")
	}
}

// What a superuser's partitions run makes belongs to the table's owner. teardown --table drops what was taken out, too.
func TestPartitionsOfTheTablesOwner(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.config += "partitions: {ahead: 3, ttl: 1d, drop: false}\n"
	s.sql("CREATE ROLE parts_owner LOGIN", "GRANT CREATE ON DATABASE "+s.name+" TO parts_owner", "GRANT CREATE ON SCHEMA public TO parts_owner")
	s.oldDays("parts_owner", 4)
	s.setup()
	said := s.says(0, "find out from its log", "check")
	s.env = []string{"CDC_RELAY_OWNER_DSN=" + s.pg.DSN(s.name, "")}
	s.follows(0, `change="taken out"`, said, "partitions run")
	s.env = nil
	s.sql(`DO $$ BEGIN
		IF EXISTS (SELECT FROM pg_class WHERE relnamespace = 'cdc_relay'::regnamespace AND relkind = 'r' AND relowner <> 'parts_owner'::regrole) THEN
			RAISE 'a partition is not the table owner''s';
		END IF;
	END $$`)
	s.says(0, "taken out of public.outbox: kept", "teardown", "--yes")
	s.setup().says(0, "taken out of public.outbox: dropped", "teardown", "--table", "--yes")
	s.sql(`DO $$ BEGIN
		IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'cdc_relay') THEN
			RAISE 'something is left';
		END IF;
	END $$`)
}

// Old rows of a table without partitions are deleted by a role that setup grants it, once the slot has passed them. A partitioned
// table is refused.
func TestOldRowsAreDeletedByACommand(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.sql("CREATE ROLE purging LOGIN REPLICATION", "CREATE ROLE owning_rows LOGIN",
		"GRANT CREATE ON DATABASE "+s.name+" TO owning_rows", "GRANT CREATE ON SCHEMA public TO owning_rows")
	s.replace("postgres@", "purging@")
	s.env = []string{"CDC_RELAY_OWNER_DSN=" + s.pg.DSN(s.name, "owning_rows")}
	s.says(0, "created", "setup", "--partition", "none")
	s.says(2, "neither a section partitions nor", "partitions", "run")
	s.config += "retention: {delete: {older_than: 30d}}\n"
	said := s.says(0, "warn  retention: role \"purging\" may not delete rows of public.outbox", "check")
	s.says(0, "GRANT DELETE ON TABLE public.outbox TO purging", "setup", "--print")
	s.follows(0, "", said, "setup")
	s.says(0, "old rows of public.outbox can be deleted", "check")
	s.sql(`INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, payload, occurred_at, created_at)
		SELECT gen_random_uuid(), 'Order', i::text, 'OrderPlaced', '', now(), now() - i * interval '1 day' FROM generate_series(25, 34) i`)
	s.env = nil
	s.says(0, "would delete 5 rows older than", "partitions", "run", "--dry-run")
	s.says(0, "would delete 6 rows older than", "partitions", "run", "--dry-run", "--older-than", "29d")
	s.says(2, "--yes", "partitions", "run", "--older-than", "1h")
	s.keepsRows()
	stop := s.advancing(func(ctx context.Context) {
		_ = s.pg.Exec(ctx, s.name, "SELECT pg_replication_slot_advance('"+s.slot()+"', pg_current_wal_lsn()), pg_sleep(0.1)")
	})
	s.says(0, `msg="old rows deleted" table=public.outbox rows=5`, "partitions", "run")
	stop()
	s.wantRowsOfPostgres(5)
	s.sql("DROP TABLE outbox")
	s.env = []string{"CDC_RELAY_OWNER_DSN=" + s.pg.DSN(s.name, "owning_rows")}
	s.setup().insert(1)
	s.says(1, "otherwise remove retention.delete", "partitions", "run")
	s.replace("retention: {delete: {older_than: 30d}}\n", "").says(0, "", "check")
	s.wantRowsOfPostgres(1)
	s.config += "partitions: {ttl: 30d}\n" // in place of it
	s.says(0, "nothing is left to do", "partitions", "run")
	s.wantRowsOfPostgres(1)
}

// keepsRows verifies that no row is deleted before the position behind it is saved.
func (s *site) keepsRows() {
	s.t.Helper()
	switch r := s.run("partitions", "run"); {
	case r.code == 0:
		cdctest.Violation(s.t, cdctest.Unpublished, "partitions run: %s", r)
	case r.code != 1 || !strings.Contains(r.stdout+r.stderr, "position is not saved yet"):
		s.t.Errorf("partitions run: %s", r)
	}
}

// advancing moves the position again and again, as other tests write to the same WAL or binlog meanwhile.
func (s *site) advancing(advance func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var advanced sync.WaitGroup
	advanced.Go(func() {
		for ctx.Err() == nil {
			advance(ctx)
		}
	})
	return func() {
		cancel()
		advanced.Wait()
	}
}

// On MySQL and MariaDB too, a role that may not delete is granted it by setup. The checkpoint decides what is relayed.
func TestOldRowsAreDeletedByACommandOnMySQL(t *testing.T) {
	onMySQL(t, func(s *site) {
		user := "purging_" + s.mysql.Flavor
		mysqlExec(s.t, s.mysql, "", "CREATE USER "+user, "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO "+user)
		if s.mysql.Flavor == testenv.MariaDBFlavor {
			mysqlExec(s.t, s.mysql, "", "GRANT REPLICATION SLAVE, BINLOG MONITOR, SLAVE MONITOR ON *.* TO "+user)
		}
		s.replace("root@", user+"@")
		s.env = []string{"CDC_RELAY_OWNER_DSN=" + s.mysql.DSN(s.name, "")}
		s.says(0, "created", "setup", "--partition", "none")
		s.config += "retention: {delete: {older_than: 30d}}\n"
		s.says(0, "warn  retention: user "+user+"@% may not delete rows of NAME.outbox", "check")
		s.says(0, "GRANT DELETE ON `NAME`.`outbox` TO `"+user, "setup", "--print")
		s.setup().says(0, "old rows of NAME.outbox can be deleted", "check")
		mysqlExec(s.t, s.mysql, s.name, `INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, payload, occurred_at, created_at)
			SELECT UNHEX(REPLACE(UUID(), '-', '')), 'Order', '1', 'OrderPlaced', '', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL 40 DAY`)
		s.env = nil
		s.says(0, "would delete 1 row older than", "partitions", "run", "--dry-run")
		s.keepsRows()
		stop := s.advancing(func(ctx context.Context) {
			set, _ := s.mysql.GTIDs(ctx)
			cmd := exec.CommandContext(ctx, binary, "position", "set", set, "--yes")
			cmd.Dir = s.dir
			_ = cmd.Run()
		})
		s.says(0, `msg="old rows deleted" table=NAME.outbox rows=1`, "partitions", "run")
		stop()
		s.insert(1)
		said := s.replace("older_than: 30d", "older_than: 20h").says(2, "shorter than a day", "partitions", "run")
		s.replace("older_than: 20h", "older_than: 30d").follows(0, "nothing is left to do", said, "partitions run")
		s.wantRows("1")
		s.sql("ALTER TABLE outbox DROP PRIMARY KEY", "ALTER TABLE outbox PARTITION BY KEY (created_at) PARTITIONS 2")
		s.says(1, "otherwise remove retention.delete", "partitions", "run")
		s.replace("retention: {delete: {older_than: 30d}}\n", "").says(0, "", "check")
		s.config += "retention: {delete: {older_than: 30d}}\n"
		s.sql("DROP TABLE outbox")
		s.env = []string{"CDC_RELAY_OWNER_DSN=" + s.mysql.DSN(s.name, "")}
		s.setup().insert(1)
		s.says(1, "set partitions in place of retention.delete", "partitions", "run")
		s.replace("retention: {delete: {older_than: 30d}}", "partitions: {ttl: 30d}").says(0, "nothing is left to do", "partitions", "run")
		s.wantRows("1")
	})
}

// On MySQL and MariaDB, too, partitions run goes through the procedure that setup makes, or without it as the table's owner.
func TestPartitionsRunOnMySQL(t *testing.T) {
	onMySQL(t, func(s *site) {
		maintained := "partitions: {ahead: 8, ttl: 2d}\n"
		s.config += maintained
		rights := "REPLICATION SLAVE, REPLICATION CLIENT"
		if s.mysql.Flavor == testenv.MariaDBFlavor {
			rights = "REPLICATION SLAVE, BINLOG MONITOR, SLAVE MONITOR"
		}
		s.sql("CREATE USER keeping", "GRANT "+rights+" ON *.* TO keeping", "CREATE USER owning", "GRANT ALL ON "+s.name+".* TO owning WITH GRANT OPTION")
		s.replace("root@", "keeping@")
		owner := s.mysql.UserDSN("owning", "", s.name, "")
		s.env = []string{"CDC_RELAY_OWNER_DSN=" + owner}
		s.follows(0, "created", s.says(1, "does not exist", "partitions", "run"), "setup")
		s.replace(maintained, "").says(0, "", "check")
		s.config += maintained
		s.says(0, "until", "partitions", "list")
		s.oldMySQLDay()
		s.says(0, "may maintain the partitions of", "check")
		s.says(0, "would take out p", "partitions", "run", "--dry-run")
		s.says(2, "--yes", "partitions", "run", "--ttl", "1h")
		s.replace("ttl: 2d", "ttl: 2d, drop: false").says(0, `change="taken out"`, "partitions", "run")
		s.says(0, "taken out, not relayed yet", "partitions", "list")
		s.sql("DROP PROCEDURE outbox_maintain")
		gtids, err := s.mysql.GTIDs(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		s.says(0, "", "position", "set", gtids, "--yes")
		s.replace(", drop: false", "")
		s.env = nil
		said := s.says(1, "run `cdc-relay setup`", "partitions", "run")
		s.says(0, "may not call", "check")
		s.env = []string{"CDC_RELAY_OWNER_DSN=" + owner}
		s.follows(0, "change=dropped", said, "partitions run")
		s.env = nil
		s.says(2, "--owner-dsn", "setup")
		s.env = []string{"CDC_RELAY_OWNER_DSN=" + owner}
		s.follows(0, "", said, "setup")
		s.says(0, "nothing is left to do", "partitions", "run")
		s.insert(1)
		said = s.replace("ttl: 2d", "ttl: 1m").says(2, "shorter than a day", "partitions", "run")
		s.replace("ttl: 1m", "ttl: 2d").follows(0, "nothing is left to do", said, "partitions run")
		s.wantRows("1")
		s.youngDay(owner)
		s.oldMySQLDay()
		s.replace("ttl: 2d", "ttl: 2d, drop: false").says(0, `change="taken out"`, "partitions", "run")
		s.says(0, "outbox: kept", "teardown", "--yes")
		s.setup().says(0, "outbox: dropped", "teardown", "--table", "--yes")
		left, err := s.mysql.Value(s.t.Context(), "SELECT (SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = ?) + "+
			"(SELECT COUNT(*) FROM information_schema.routines WHERE routine_schema = ?)", s.name, s.name)
		if err != nil || left != "0" {
			s.t.Errorf("%s tables and procedures are left: %v", left, err)
		}
	})
}

// youngDay takes out yesterday, which the relay's user does not drop before it is a day old, and the owner does.
func (s *site) youngDay(owner string) {
	s.t.Helper()
	s.oldMySQLDay()
	s.sql("INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, occurred_at, created_at) " +
		"VALUES (X'02', 'Order', '1', 'placed', UTC_TIMESTAMP(6), UTC_DATE() - INTERVAL 1 SECOND)")
	s.env = nil
	s.setup()
	s.run("partitions", "run", "--ttl", "1s", "--yes")
	gtids, err := s.mysql.GTIDs(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	s.says(0, "", "position", "set", gtids, "--yes")
	said := s.says(1, "wait until it is a day old", "partitions", "run", "--ttl", "1s", "--yes")
	s.env = []string{"CDC_RELAY_OWNER_DSN=" + owner}
	s.follows(0, "nothing is left to do", said, "partitions run") // it is not past the TTL of the configuration
	s.says(0, "change=dropped", "partitions", "run", "--ttl", "1s", "--yes")
}

// wantRows counts the rows of the outbox on MySQL and MariaDB.
func (s *site) wantRows(want string) {
	s.t.Helper()
	if n, err := s.mysql.Value(s.t.Context(), "SELECT COUNT(*) FROM "+s.name+".outbox"); err != nil || n != want {
		cdctest.Violation(s.t, cdctest.Unpublished, "%s rows are left, want %s: %v", n, want, err)
	}
}

// oldMySQLDay makes the table anew, with partitions for the last days and an old event.
func (s *site) oldMySQLDay() {
	s.t.Helper()
	old, err := outbox.MySQLTable(outbox.TableOptions{Name: outbox.Name{Schema: s.name, Table: "outbox"}, From: time.Now().AddDate(0, 0, -5), Ahead: 6})
	if err != nil {
		s.t.Fatal(err)
	}
	statements := []string{"DROP TABLE outbox"}
	for _, st := range old.Up {
		statements = append(statements, st.SQL)
	}
	statements = append(statements, "INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, occurred_at, created_at) "+
		"VALUES (X'01', 'Order', '1', 'placed', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL 4 DAY)")
	s.sql(strings.Join(statements, "; ")) // on one connection
}

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

// check warns if the daily partitions reach less than 7 days ahead, and retention run --ahead fixes it.
func TestCheckWarnsOfFewPartitions(t *testing.T) {
	onAll(t, func(s *site) { fewPartitions(s, s.qualified("outbox")) })
}

func fewPartitions(s *site, table string) {
	s.t.Helper()
	s.ownedBy("owning_days")
	warns := "warn  partitions: daily partitions of " + table + " reach "
	for _, step := range []struct {
		command string
		warned  bool
	}{
		{"setup --ahead 1", true},
		{"retention run --ahead 2", true}, // the last day ends in less than three
		{"retention run --ahead 3", false},
	} {
		s.says(0, "", strings.Fields(step.command)...)
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
func (s *site) follows(code int, part, message, start string, fill ...string) {
	s.t.Helper()
	args, err := cdctest.PrintedCommand(s.t.Context(), message, start, fill...)
	testenv.Must(s.t, err)
	s.says(code, part, args...)
}

// partitions run makes days and removes old ones once the position has passed them: through the routine that setup makes, or
// without it as the table's owner.
func TestPartitionsRun(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		const maintained = "retention: {ahead: 8, keep: 2d}\n"
		s.config += maintained
		s.asReplicator("keeping")
		s.ownedBy("owning_parts")
		owner, drop := s.env, "DROP PROCEDURE outbox_maintain"
		if s.mysql == nil {
			drop = "DROP FUNCTION cdc_relay.public_outbox_maintain"
			s.follows(0, "created", s.says(2, "table public.outbox does not exist", "replay", "--id", eventID(1)), "setup")
			s.as("owning_parts", "DROP TABLE outbox CASCADE")
		}
		s.follows(0, "created", s.says(1, "does not exist", "retention", "run"), "setup")
		s.replace(maintained, "").says(0, "", "check")
		s.config += maintained
		s.says(0, "until", "retention", "list")
		s.oldDays("owning_parts", 4)
		s.setup().says(0, "may maintain the partitions of "+s.qualified("outbox"), "check")
		s.says(0, "would detach ", "retention", "run", "--dry-run")
		s.says(2, "--force", "retention", "run", "--ttl", "1h")
		s.replace("keep: 2d", "keep: 2d, drop: false").says(0, `change=detached`, "retention", "run")
		s.says(0, "detached, not relayed yet", "retention", "list")
		s.asOwner("owning_parts", drop)
		s.relayed().replace(", drop: false", "")
		stop := s.advancing() // a run notes a position of its own, and others commit on the same server
		s.env = nil
		said := s.says(1, "run `cdc-relay setup`", "retention", "run")
		s.says(0, "may not call", "check")
		s.env = owner
		s.follows(0, "change=dropped", said, "retention run")
		s.env = nil
		s.says(2, "--owner-dsn", "setup")
		s.env = owner
		s.follows(0, "", said, "setup")
		s.says(0, "nothing is left to do", "retention", "run")
		s.insert(1)
		s.replace("keep: 2d", "keep: 1m").says(2, "shorter than a day", "retention", "run")
		s.replace("keep: 1m", "keep: 2d").says(0, "nothing is left to do", "retention", "run")
		stop()
		s.wantRows(1)
		s.youngDay(owner)
		if s.mysql == nil {
			s.renamedAway()
		}
	})
}

// renamedAway renames the table, and follows what setup says.
func (s *site) renamedAway() {
	s.t.Helper()
	s.as("owning_parts", "ALTER TABLE outbox RENAME TO away")
	said := s.says(2, "is a partition of public.away", "setup")
	_, back, _ := strings.Cut(said, "rename it back with `")
	back, _, _ = strings.Cut(back, "`")
	s.as("owning_parts", strings.Replace(back, " NAME", " outbox", 1))
	s.says(0, "", "check")
	s.as("owning_parts", "DROP TABLE outbox CASCADE")
	s.follows(0, "created", s.says(3, "table public.outbox does not exist in this database", "check"), "setup")
	relay := s.insert(2).start()
	s.published(relay.leading(), 2)
}

// ownedBy has setup run as a role that may create tables, and give rights to them.
func (s *site) ownedBy(role string) {
	s.t.Helper()
	if s.mysql == nil {
		s.sql("CREATE ROLE "+role+" LOGIN", "GRANT CREATE ON DATABASE "+s.name+" TO "+role, "GRANT CREATE ON SCHEMA public TO "+role)
		s.env = []string{"CDC_RELAY_OWNER_DSN=" + s.pg.DSN(s.name, role)}
		return
	}
	s.sql("CREATE USER "+role, "GRANT ALL ON "+s.name+".* TO "+role+" WITH GRANT OPTION")
	s.env = []string{"CDC_RELAY_OWNER_DSN=" + s.mysql.UserDSN(role, "", s.name, "")}
}

// asOwner runs SQL as the role that owns the table.
func (s *site) asOwner(role, sql string) {
	s.t.Helper()
	if s.mysql == nil {
		s.as(role, sql)
	} else {
		s.sql(sql)
	}
}

// relayed moves the position to the end of the WAL or binlog.
func (s *site) relayed() *site {
	s.t.Helper()
	if s.mysql == nil {
		return s.sql("SELECT pg_replication_slot_advance('" + s.slot() + "', pg_current_wal_lsn())")
	}
	gtids, err := s.mysql.GTIDs(s.t.Context())
	testenv.Must(s.t, err)
	s.says(0, "", "position", "set", gtids, "--skip-events")
	return s
}

// oldDays makes the table anew, by its owner, with partitions for the last days, on MySQL and MariaDB the last five, with an old event.
func (s *site) oldDays(owner string, days int) {
	s.t.Helper()
	o := outbox.TableOptions{Name: outbox.Name{Schema: "public", Table: "outbox"}, From: time.Now().AddDate(0, 0, -days), Ahead: 1}
	table, statements := outbox.PostgresTable, []string{"DROP TABLE IF EXISTS outbox CASCADE"}
	if s.mysql != nil {
		o.Name.Schema, o.From, o.Ahead = s.name, time.Now().AddDate(0, 0, -5), 6
		table, statements = outbox.MySQLTable, []string{"DROP TABLE outbox"}
	}
	for _, st := range table(o).Up {
		statements = append(statements, st.SQL)
	}
	if s.mysql != nil {
		statements = append(statements, "INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, occurred_at, created_at) "+
			"VALUES (X'01', 'Order', '1', 'placed', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL 4 DAY)")
		s.sql(strings.Join(statements, "; ")) // on one connection
		return
	}
	for _, sql := range statements {
		s.as(owner, sql)
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
		testenv.Must(t, err)
		s.as("first_parts", grant)
		s.says(0, "done", "setup")
		s.says(0, "second_parts.outbox: dropped", "teardown", "--drop-table", "--yes")
	}
}

// What a superuser's partitions run makes belongs to the table's owner. teardown --drop-table drops what was taken out, too.
func TestPartitionsOfTheTablesOwner(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		s.config += "retention: {ahead: 8, keep: 1d, drop: false}\n"
		left := "SELECT (SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '" + s.name + "') + " +
			"(SELECT COUNT(*) FROM information_schema.routines WHERE routine_schema = '" + s.name + "')"
		if s.mysql == nil {
			left = "SELECT COUNT(*) FROM pg_namespace WHERE nspname = 'cdc_relay'"
			s.ownedBy("parts_owner")
			s.env = nil
			s.oldDays("parts_owner", 4)
			s.setup()
			said := s.says(0, "find out from its log", "check")
			s.env = []string{"CDC_RELAY_OWNER_DSN=" + s.pg.DSN(s.name, "")}
			s.follows(0, `change=detached`, said, "retention run")
			s.env = nil
			s.sql(`DO $$ BEGIN
				IF EXISTS (SELECT FROM pg_class WHERE relnamespace = 'cdc_relay'::regnamespace AND relkind = 'r' AND relowner <> 'parts_owner'::regrole) THEN
					RAISE 'a partition is not the table owner''s';
				END IF;
			END $$`)
		} else {
			s.setup().oldDays("", 5)
			s.says(0, `change=detached`, "retention", "run")
		}
		s.says(0, "outbox: kept", "teardown", "--yes")
		s.says(0, "done", "setup", "--skip-existing") // the detached days have rows
		s.says(0, "outbox: dropped", "teardown", "--drop-table", "--yes")
		var n int
		if err := s.open().QueryRowContext(s.t.Context(), left).Scan(&n); err != nil || n != 0 {
			s.t.Errorf("%d things are left: %v", n, err)
		}
	})
}

// Old rows of a table without partitions are deleted by a role that setup grants it, once the position has passed them. A partitioned
// table is refused.
func TestOldRowsAreDeletedByACommand(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		const retention = "retention: {keep: 30d, partitions: false}\n"
		role, table := "purging", s.qualified("outbox")
		s.asReplicator(role)
		s.ownedBy("owning_rows")
		owner := s.env
		s.says(0, "created", "setup", "--partition", "none")
		s.says(2, "no section retention", "retention", "run")
		s.config += retention
		said := s.says(0, "may not delete rows of "+table, "check")
		s.says(0, "GRANT DELETE ON ", "setup", "--print")
		if s.mysql == nil {
			s.follows(0, "", said, "setup")
		}
		s.setup().says(0, "old rows of "+table+" can be deleted", "check")
		id, ago := "gen_random_uuid()", "now() - interval '%d days'"
		if s.mysql != nil {
			id, ago = "UNHEX(REPLACE(UUID(), '-', ''))", "UTC_TIMESTAMP(6) - INTERVAL %d DAY"
		}
		for days := 25; days < 35; days++ {
			s.sql("INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, payload, occurred_at, created_at) " +
				"SELECT " + id + ", 'Order', '1', 'OrderPlaced', '', CURRENT_TIMESTAMP, " + fmt.Sprintf(ago, days))
		}
		s.env = nil
		s.says(0, "would delete 5 rows older than", "retention", "run", "--dry-run")
		s.says(0, "would delete 6 rows older than", "retention", "run", "--dry-run", "--older-than", "29d")
		s.says(2, "--force", "retention", "run", "--older-than", "1h")
		stop := s.advancing()
		s.says(0, `msg="old rows deleted" table=`+table+` rows=5`, "retention", "run")
		stop()
		s.wantRows(5)
		s.sql("DELETE FROM outbox").insert(1).says(0, "nothing is left to do", "retention", "run")
		s.wantRows(1)
		refused := "otherwise remove retention, and"
		if s.mysql != nil {
			s.sql("ALTER TABLE outbox DROP PRIMARY KEY", "ALTER TABLE outbox PARTITION BY KEY (created_at) PARTITIONS 2")
			s.says(1, refused, "retention", "run")
			s.replace(retention, "").says(0, "", "check")
			s.config += retention
			refused = "remove retention.partitions: false if"
		}
		s.sql("DROP TABLE outbox")
		s.env = owner
		s.setup().insert(1)
		s.says(1, refused, "retention", "run")
		s.replace(retention, "").says(0, "", "check")
		s.config += "retention: {keep: 30d}\n"
		s.says(0, "nothing is left to do", "retention", "run")
		s.wantRows(1)
	})
}

// advancing moves the position again and again, as other tests write to the same WAL or binlog meanwhile.
func (s *site) advancing() (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var advanced sync.WaitGroup
	advanced.Go(func() {
		for ctx.Err() == nil {
			if s.mysql == nil {
				_ = s.pg.Exec(ctx, s.name, "SELECT pg_replication_slot_advance('"+s.slot()+"', pg_current_wal_lsn()), pg_sleep(0.1)")
				continue
			}
			set, _ := s.mysql.GTIDs(ctx)
			cmd := exec.CommandContext(ctx, binary, "position", "set", set, "--skip-events")
			cmd.Dir = s.dir
			_ = cmd.Run()
		}
	})
	return func() {
		cancel()
		advanced.Wait()
	}
}

// youngDay takes out yesterday, which the relay's role does not drop before it is a day old, and the owner does.
func (s *site) youngDay(owner []string) {
	s.t.Helper()
	s.oldDays("owning_parts", 1)
	s.setup()
	yesterday := "X'02', 'Order', '1', 'placed', UTC_TIMESTAMP(6), UTC_DATE() - INTERVAL 1 SECOND"
	if s.mysql == nil {
		yesterday = "gen_random_uuid(), 'Order', '1', 'placed', now(), date_trunc('day', now()) - interval '1 second'"
	}
	s.sql("INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, occurred_at, created_at) VALUES (" + yesterday + ")").insert(1)
	s.env = nil
	s.relayed().run("retention", "run", "--ttl", "1s", "--force")
	said := s.relayed().says(1, "wait until it is a day old", "retention", "run", "--ttl", "1s", "--force")
	s.env = owner
	s.follows(0, "nothing is left to do", said, "retention run") // it is not past the TTL of the configuration
	s.says(0, "change=dropped", "retention", "run", "--ttl", "1s", "--force")
	s.wantRows(1)
}

// wantRows counts the rows of the outbox.
func (s *site) wantRows(want int) {
	s.t.Helper()
	var n int
	if err := s.open().QueryRowContext(s.t.Context(), "SELECT COUNT(*) FROM outbox").Scan(&n); err != nil || n != want {
		cdctest.Violation(s.t, cdctest.Unpublished, "%d rows are left, want %d: %v", n, want, err)
	}
}

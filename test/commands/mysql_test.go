package commands

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// newSiteOnMySQL creates a database, a user without rights, and a valid configuration. Authentication is the server's
// default: caching_sha2_password on MySQL.
func newSiteOnMySQL(t *testing.T, server *testenv.MySQLServer) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), name: "cmd_" + server.Flavor + strings.ReplaceAll(server.Version, ".", "_"), mysql: server}
	mysqlExec(t, server, "", "CREATE DATABASE "+s.name, "CREATE USER relay IDENTIFIED BY 'geheim'")
	return s.configure(fmt.Sprintf(`mysql: {id: %[2]s, dsn: "relay@tcp(%[1]s)/%[2]s", password: geheim}`, server.Addr(), s.name))
}

func mysqlExec(t *testing.T, server *testenv.MySQLServer, database string, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if err := server.Exec(t.Context(), database, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// normalMySQL replaces what differs between runs on MySQL and MariaDB.
func normalMySQL(text string) string {
	for _, r := range []struct{ pattern, with string }{
		{`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9][0-9:,-]*`, "GTID"},
		{`\b0-[0-9]+-[0-9]+\b`, "GTID"},
		{`(MySQL|MariaDB) [0-9.]+[-\w.]*`, "$1 N"},
		{`\bp20[0-9]{6}\b`, "pDAY"},
		{`127\.0\.0\.1:PORT|PGHOST`, "HOST"},
		{`(?m)^time=.*\n`, ""},
		{`the SUPER, BINLOG MONITOR`, "the BINLOG MONITOR"}, // MariaDB 11 leaves SUPER out
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.with)
	}
	return text
}

// The first setup, on a server with a wrong setting and as a user without rights, prints what an administrator must run.
// After that it succeeds and stores the position once.
//
//covers:binlogs 28 messages
func TestFirstStartOnMySQL(t *testing.T) {
	for _, o := range []testenv.MySQLOptions{
		{Flavor: testenv.MySQLFlavor},
		{Flavor: testenv.MariaDBFlavor},
		{Flavor: testenv.MariaDBFlavor, Release: testenv.MariaDB114},
		{Flavor: testenv.MariaDBFlavor, Release: testenv.MariaDB118},
	} {
		t.Run(o.Flavor+o.Release, func(t *testing.T) {
			t.Parallel()
			o.Settings = map[string]string{"binlog_row_metadata": "MINIMAL"}
			server := testenv.MySQL(t, o)
			s := newSiteOnMySQL(t, server)
			mysqlExec(t, server, s.name, "GRANT SELECT ON "+s.name+".* TO relay")
			owner := server.DSN(s.name, "")
			var text strings.Builder
			run := func(command string) result {
				shown, typed, _ := strings.Cut(command, " < ")
				r := s.raw(typed+"\n", append(strings.Fields(shown), ownerFor(shown, owner)...)...)
				fmt.Fprintf(&text, "$ cdc-relay %s\n%s\n", command, s.normal(r.String()))
				return r
			}
			run("config show")
			printed := run("setup --print --ahead 1").stdout
			run("check")
			run("run")
			refused := run("setup --ahead 1")
			for _, statement := range statements(refused.stdout) {
				mysqlExec(t, server, s.name, statement)
			}
			named := s.config
			s.replace("id: "+s.name+", ", "")
			run("setup")
			s.config = named
			run("run")
			fix, err := cdctest.PrintedCommand(t.Context(), refused.String(), "setup")
			testenv.Must(t, err)
			run(strings.Join(fix, " "))
			run("setup")
			run("check")
			run("run --start-from nowhere")
			run("position show")
			before := gtids(t, server)
			mysqlExec(t, server, s.name, "CREATE TABLE other (id int)")
			after := gtids(t, server)
			for _, command := range []string{
				"position set 16/B374D848", "position set " + before + " --skip-events", "position set " + after, "position set " + after + " --skip-events",
				"position set " + before, "position set " + before, "position show",
				"teardown --print --drop-table", "teardown < no", "teardown --yes", "position reset", "position show", "position set " + after, "position reset",
				"teardown --drop-table < no", "teardown --drop-table < outbox",
			} {
				run(command)
			}
			golden(t, o.Flavor+".txt", normalMySQL(text.String())) // the commands hold positions too
			s.printedFrom(printed)
		})
	}
}

// printedFrom runs what setup --print printed and then says to run, and what teardown --print says. Events that are written after
// that are published, and rows that are left are kept.
func (s *site) printedFrom(printed string) {
	s.t.Helper()
	for statement := range strings.SplitSeq(printed, ";\n") {
		if strings.Contains(statement, "\nCREATE ") || strings.Contains(statement, "\nGRANT ") {
			mysqlExec(s.t, s.mysql, s.name, statement)
		}
	}
	s.follows(0, "stored ", printed, "setup")
	relay := s.insert(1).start()
	s.published(relay.leading(), 1)
	relay.signal(syscall.SIGTERM)
	s.follows(0, "outbox: kept", s.run("teardown", "--print").stdout, "teardown")
	s.wantRows(1)
}

// gtids returns the GTIDs at the end of the binlog.
func gtids(t *testing.T, server *testenv.MySQLServer) string {
	t.Helper()
	query := map[string]string{testenv.MySQLFlavor: "SELECT @@gtid_executed", testenv.MariaDBFlavor: "SELECT @@gtid_binlog_pos"}[server.Flavor]
	set, err := server.Value(t.Context(), query)
	testenv.Must(t, err)
	return strings.ReplaceAll(set, "\n", "")
}

// ownerFor returns --owner-dsn for commands that have it.
func ownerFor(command, dsn string) []string {
	for _, takes := range []string{"setup", "teardown"} {
		if strings.HasPrefix(command, takes) {
			return []string{"--owner-dsn", dsn}
		}
	}
	return nil
}

// statements splits the output of setup into statements.
func statements(text string) []string {
	var list []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasSuffix(line, ";") && !strings.HasPrefix(line, "--") {
			list = append(list, strings.TrimSuffix(line, ";"))
		}
	}
	return list
}

// Options of the server that leave the outbox out of the binlog are refused by each command before it says that events are published. What
// is printed publishes what was written meanwhile.
func TestBinlogFilters(t *testing.T) {
	t.Parallel()
	for flavor := range mysqls {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			server := testenv.MySQL(t, testenv.MySQLOptions{Flavor: flavor})
			s := newMySQLSiteOn(t, server).setup()
			settings := filepath.Join(filepath.Dir(server.LogPath()), "my.cnf")
			before, err := os.ReadFile(settings)
			testenv.Must(t, err)
			restart := func(more string) {
				testenv.Must(t, errors.Join(os.WriteFile(settings, append(slices.Clone(before), more...), 0o600), server.Restart(t.Context(), testenv.MySQLShutdown)))
			}
			began := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
			filter, says := "binlog_do_db = other\n", "binlog-do-db=other leaves table NAME.outbox out of the binlog"
			if flavor == testenv.MySQLFlavor {
				filter, says = "binlog_ignore_db = "+s.name+"\n", "binlog-ignore-db=NAME leaves table NAME.outbox out of the binlog"
			}
			restart(filter)
			s.insert(1)
			s.says(3, says, "check")
			s.says(2, says, "setup")
			said := s.says(2, says, "run")
			restart("")
			s.follows(0, "", said, "repair", "TIME", began)
			relay := s.start()
			url := relay.leading()
			s.insert(2).saves(url, eventID(2))
			relay.stops()
			s.consume(s.name, 2)
		})
	}
}

// A table that becomes system-versioned stops the relay at its first row, whatever the columns of its period are called, and is refused by
// its name from then on. What is printed publishes what was inserted meanwhile.
func TestSystemVersionedTable(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][2]string{
		"usual": {"ADD SYSTEM VERSIONING", "DROP SYSTEM VERSIONING"},
		"named": {
			"ADD COLUMN since TIMESTAMP(6) GENERATED ALWAYS AS ROW START, ADD COLUMN until TIMESTAMP(6) GENERATED ALWAYS AS ROW END, ADD PERIOD FOR SYSTEM_TIME(since, until), ADD SYSTEM VERSIONING",
			"DROP COLUMN since, DROP COLUMN until, DROP PERIOD FOR SYSTEM_TIME, DROP SYSTEM VERSIONING",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newMySQLSite(t, testenv.MariaDBFlavor).markedTable("varchar(36)")
			_, rest, _ := strings.Cut(s.config, "source:")
			s.config = "source:" + rest
			s.config = strings.Split(markedConfig, "    write_back:")[0] + s.config
			s.setup()
			relay := s.start()
			url := relay.leading()
			s.newJob("a", "")
			s.saves(url, "a")
			began := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
			s.sql("ALTER TABLE jobs "+change[0], "UPDATE jobs SET attempts = 1", "INSERT INTO jobs (id, type, about, payload) VALUES ('b', 'placed', 'a', '{}')")
			if code := relay.wait(); code != 1 {
				t.Errorf("exit %d", code)
			}
			said := relay.lines[len(relay.lines)-1]
			const refused = "table NAME.jobs is system-versioned"
			s.says(2, refused, "run")
			s.says(2, refused, "setup")
			s.says(3, refused, "check")
			s.sql("SET STATEMENT system_versioning_alter_history = KEEP FOR ALTER TABLE jobs " + change[1])
			s.follows(0, "dropped", said, "position reset")
			s.follows(0, "", said, "repair", "TIME", began)
			relay = s.start()
			url = relay.leading()
			s.newJob("c", "")
			s.saves(url, "c")
			relay.stops()
			s.consume(s.name, 4) // a is published by the repair once more
		})
	}
}

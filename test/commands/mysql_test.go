package commands

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// newSiteOnMySQL creates a database, a user without rights, and a valid configuration. Authentication is the server's
// default: caching_sha2_password on MySQL.
func newSiteOnMySQL(t *testing.T, server *testenv.MySQLServer) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), name: "cmd_" + server.Flavor + strings.ReplaceAll(server.Version, ".", "_"), mysql: server}
	mysqlExec(t, server, "", "CREATE DATABASE "+s.name, "CREATE USER relay IDENTIFIED BY 'geheim'")
	return s.configure(fmt.Sprintf(`mysql: {dsn: "relay@tcp(%s)/%s", password: geheim}`, server.Addr(), s.name))
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
//follows:provision.ready/server_not_ready setup
//follows:provision.Print setup
//follows:provision.Print#2 teardown
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
			run("run")
			run(printedCommand(t, refused.String(), "setup"))
			run("setup")
			run("schema apply --ahead 3")
			run("check")
			run("run --start-from nowhere")
			run("position show")
			before := gtids(t, server)
			mysqlExec(t, server, s.name, "CREATE TABLE other (id int)")
			after := gtids(t, server)
			for _, command := range []string{
				"position set 16/B374D848", "position set " + before + " --yes", "position set " + after, "position set " + after + " --yes",
				"position set " + before, "position set " + before, "position show",
				"teardown --print --table", "teardown", "position reset", "position show", "position set " + after, "position reset",
				"teardown --table < no", "teardown --table < outbox",
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
	s.says(0, "stored ", printedCommand(s.t, printed, "setup"))
	relay := s.insert(1).start()
	s.published(relay.leading(), 1)
	relay.signal(syscall.SIGTERM)
	s.says(0, "outbox: kept", printedCommand(s.t, s.run("teardown", "--print").stdout, "teardown"))
	s.wantRows("1")
}

func printedCommand(t *testing.T, said, start string) string {
	t.Helper()
	args, err := cdctest.PrintedCommand(t.Context(), said, start)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(args, " ")
}

// gtids returns the GTIDs at the end of the binlog.
func gtids(t *testing.T, server *testenv.MySQLServer) string {
	t.Helper()
	query := map[string]string{testenv.MySQLFlavor: "SELECT @@gtid_executed", testenv.MariaDBFlavor: "SELECT @@gtid_binlog_pos"}[server.Flavor]
	set, err := server.Value(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(set, "\n", "")
}

// ownerFor returns --owner-dsn for commands that have it.
func ownerFor(command, dsn string) []string {
	for _, takes := range []string{"setup", "schema apply", "teardown"} {
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

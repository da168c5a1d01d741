package commands

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

var update = flag.Bool("update", false, "write the golden files")

// site is a user's directory with a configuration, and a database.
type site struct {
	t   *testing.T
	dir string
	// name is the name of the database and part of the names of slot, publication, topic and Redis key.
	name string
	// Either pg or mysql is set.
	pg    *testenv.PostgresServer
	mysql *testenv.MySQLServer
	// config is the text of cdc-relay.yaml.
	config     string
	env        []string
	credential *syscall.Credential
}

// newSite creates a database and a valid configuration.
func newSite(t *testing.T) *site {
	t.Helper()
	return newSiteOn(t, postgres)
}

func newSiteOn(t *testing.T, pg *testenv.PostgresServer) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), name: databaseName(t), pg: pg}
	testenv.Must(t, pg.CreateDatabase(t.Context(), s.name))
	t.Cleanup(s.dropSlot)
	return s.configure(fmt.Sprintf(`postgres: {dsn: %q}`, pg.DSN(s.name, "")))
}

// newMySQLSite is newSite on the shared server of a flavor.
func newMySQLSite(t *testing.T, flavor string) *site {
	t.Helper()
	return newMySQLSiteOn(t, mysqls[flavor])
}

func newMySQLSiteOn(t *testing.T, server *testenv.MySQLServer) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), name: databaseName(t), mysql: server}
	testenv.Must(t, server.CreateDatabase(t.Context(), s.name))
	return s.configure(fmt.Sprintf(`mysql: {id: %[2]s, dsn: "root@tcp(%[1]s)/%[2]s"}`, server.Addr(), s.name))
}

// open connects to the site's database as the superuser.
func (s *site) open() *sql.DB {
	s.t.Helper()
	var db *sql.DB
	var err error
	if s.mysql != nil {
		db, err = s.mysql.Open(s.name, nil)
	} else {
		db, err = sql.Open("pgx", s.pg.DSN(s.name, ""))
	}
	testenv.Must(s.t, err)
	s.t.Cleanup(func() { _ = db.Close() })
	return db
}

// siteOn is newSite on "postgres" or on the shared server of a flavor.
func siteOn(t *testing.T, database string) *site {
	t.Helper()
	if database == "postgres" {
		return newSite(t)
	}
	return newMySQLSite(t, database)
}

// onAll runs fn on PostgreSQL, MySQL and MariaDB at the same time.
func onAll(t *testing.T, fn func(s *site)) {
	t.Helper()
	on(t, fn, "postgres", testenv.MySQLFlavor, testenv.MariaDBFlavor)
}

// onMySQL runs fn on MySQL and on MariaDB at the same time.
func onMySQL(t *testing.T, fn func(s *site)) {
	t.Helper()
	on(t, fn, testenv.MySQLFlavor, testenv.MariaDBFlavor)
}

func on(t *testing.T, fn func(s *site), databases ...string) {
	t.Helper()
	for _, database := range databases {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			fn(siteOn(t, database))
		})
	}
}

func databaseName(t *testing.T) string {
	t.Helper()
	name := strings.ToLower(regexp.MustCompile(`[^a-zA-Z0-9]+`).ReplaceAllString(strings.TrimPrefix(t.Name(), "Test"), "_"))
	return "cmd_" + name[:min(len(name), 45)]
}

// configure writes a valid configuration with the given source.
func (s *site) configure(source string) *site {
	s.config = fmt.Sprintf(`source:
  %s
kafka: {brokers: [%q]}
topics: {create: {partitions: 3, replication_factor: 1}}
routes:
  - {topic: %s}
checkpoint: {redis: {addrs: [%q]}}
http: {listen: "127.0.0.1:0"}
log: {format: text}
`, source, kafka.Bootstrap()[0], s.name, redis.Addr())
	return s
}

// addr returns the address of the database server.
func (s *site) addr() string {
	if s.mysql != nil {
		return s.mysql.Addr()
	}
	return s.pg.Addr()
}

func (s *site) slot() string { return "cdc_relay_" + s.name }

// dropSlot frees the slot for other tests: a server has a limited number.
func (s *site) dropSlot() {
	_ = s.pg.Exec(context.Background(), "postgres", "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active AND database = '"+s.name+"'")
}

// replace changes the configuration, which must contain old.
func (s *site) replace(old, with string) *site {
	s.t.Helper()
	if !strings.Contains(s.config, old) {
		s.t.Fatalf("the configuration has no %q:\n%s", old, s.config)
	}
	s.config = strings.ReplaceAll(s.config, old, with)
	return s
}

// sql runs statements as the superuser.
func (s *site) sql(statements ...string) *site {
	s.t.Helper()
	if s.mysql != nil {
		mysqlExec(s.t, s.mysql, s.name, statements...)
		return s
	}
	for _, statement := range statements {
		if err := s.pg.Exec(s.t.Context(), s.name, statement); err != nil {
			s.t.Fatalf("%s: %v", statement, err)
		}
	}
	return s
}

// insert commits events with the IDs 00000000-0000-7000-8000-00000000000N.
func (s *site) insert(ids ...int) *site {
	s.t.Helper()
	value, now := "'%s'", "now()"
	if s.mysql != nil {
		value, now = "UNHEX(REPLACE('%s', '-', ''))", "UTC_TIMESTAMP(6)"
	}
	for _, id := range ids {
		s.sql(fmt.Sprintf("INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, payload, occurred_at) "+
			"VALUES ("+value+", 'Order', '42', 'order.placed', '{}', "+now+")", eventID(id)))
	}
	return s
}

func eventID(id int) string { return fmt.Sprintf("00000000-0000-7000-8000-%012d", id) }

// setup runs `cdc-relay setup`, which must succeed.
func (s *site) setup() *site {
	s.t.Helper()
	r := s.run("setup")
	if r.code != 0 {
		s.t.Fatalf("setup: %s", r)
	}
	s.t.Logf("setup: %s", r) // read if the test fails
	return s
}

// result is the outcome of a command.
type result struct {
	code           int
	stdout, stderr string
}

func (r result) String() string {
	return fmt.Sprintf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
}

// commandTimeout only ends a test that hangs.
var commandTimeout = cdctest.Patience(5 * time.Minute)

// run runs cdc-relay with the site's configuration to completion. In the output, what differs between runs is replaced.
func (s *site) run(args ...string) result {
	s.t.Helper()
	return s.answer("", args...)
}

// answer is run with input.
func (s *site) answer(typed string, args ...string) result {
	s.t.Helper()
	r := s.raw(typed, args...)
	return result{r.code, s.normal(r.stdout), s.normal(r.stderr)}
}

// raw is answer with unchanged output.
func (s *site) raw(typed string, args ...string) result {
	s.t.Helper()
	cmd := s.command(args...)
	cmd.Stdin = strings.NewReader(typed)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func (s *site) command(args ...string) *exec.Cmd {
	s.t.Helper()
	path := filepath.Join(s.dir, "cdc-relay.yaml") // renamed: a command that was just started may be reading it
	testenv.Must(s.t, os.WriteFile(path+".new", []byte(s.config), 0o644))
	testenv.Must(s.t, os.Rename(path+".new", path))
	ctx, cancel := context.WithTimeout(s.t.Context(), commandTimeout)
	s.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), s.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGKILL) }
	return cmd
}

// normal replaces what differs between runs.
func (s *site) normal(text string) string {
	for _, r := range []struct{ pattern, with string }{
		{regexp.QuoteMeta(s.addr()), "PGHOST"},
		{regexp.QuoteMeta(kafka.Bootstrap()[0]), "KAFKA"},
		{regexp.QuoteMeta(redis.Addr()), "REDIS"},
		{regexp.QuoteMeta(s.dir), "DIR"},
		{`cdc_relay_` + s.name, "SLOT"},
		{`\b` + s.name + `\b`, "NAME"},
		{`\b[0-9A-F]{1,8}/[0-9A-F]{1,8}\b`, "LSN"},
		{`\b[0-9A-F]{16}\b`, "HEX"},
		{`\b[0-9]{19}\b`, "SYSTEM"},
		{`PID [0-9]+`, "PID 1"},
		{`\b[0-9]+(\.[0-9]+)? (bytes|kB|MB|GB)\b`, "SIZE"},
		{`20[0-9]{2}-[0-9]{2}-[0-9]{2}(T[0-9:.]+Z)?`, "DATE"},
		{`PostgreSQL [0-9.]+`, "PostgreSQL N"},
		{` on [0-9.]+:53`, ""},
		{`\b[0-9]{14}_`, "VERSION_"},
		{`xid [0-9]+`, "xid 1"},
		{`generation [0-9]+, save [0-9]+`, "generation N, save N"},
		{`startup parameter: \w+`, "startup parameter: PARAMETER"},
		{`(does not answer as PostgreSQL does) \([^)]*\)`, "$1 (CAUSE)"}, // MySQL's depends on the length of its version
		{`127\.0\.0\.1:[0-9]{4,5}`, "127.0.0.1:PORT"},
		{`port [0-9]{4,5}`, "port PORT"},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.with)
	}
	if s.mysql != nil {
		return normalMySQL(text)
	}
	return text
}

// golden compares text with a file in testdata, which -update writes.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		testenv.Must(t, os.WriteFile(path, []byte(text), 0o600))
		return
	}
	want, err := os.ReadFile(path)
	testenv.Must(t, err)
	if text != string(want) {
		t.Errorf("%s (run with -update to accept):\n%s", path, difference(string(want), text))
	}
}

// difference lists the lines that are in only one of the texts.
func difference(want, got string) string {
	var out strings.Builder
	list := func(mark, of, other string) {
		there := map[string]bool{}
		for line := range strings.Lines(other) {
			there[line] = true
		}
		for line := range strings.Lines(of) {
			if !there[line] {
				out.WriteString(mark + line)
			}
		}
	}
	list("- ", want, got)
	list("+ ", got, want)
	return out.String()
}

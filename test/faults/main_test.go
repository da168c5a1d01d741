// Package faults runs the shipped binary against real servers and injects the faults listed in test/docs/faults.md. Every
// test ends with the checkers of package cdctest.
package faults

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/cdctest/coverage"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// shared are the servers of this process. Each test has a database and topics of its own there.
var shared struct {
	binary     string
	postgres   *testenv.PostgresServer
	kafka      *testenv.KafkaCluster
	redis      *testenv.RedisServer
	mysql      map[string]*testenv.MySQLServer // by flavor
	pausing    sync.Mutex                      // held while kafka is paused
	restarting sync.Mutex
}

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, startServers, stopServers, everythingCounted, func() error {
		// sarama's encoder of fetch requests takes one meter from a global registry.
		return goleak.Find(goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
	}))
}

// count names the file to which rigs append what they count.
func count(dir string) error {
	if os.Getenv(coverage.EnvFile) != "" {
		return nil
	}
	return os.Setenv(coverage.EnvFile, filepath.Join(dir, "counted.jsonl"))
}

// everythingCounted returns an error if a run of whole tests on all sources did not count what these tests declare.
func everythingCounted() error {
	pattern := flag.Lookup("test.run").Value.String()
	if strings.Contains(pattern, "/") || os.Getenv(EnvSources) != "" {
		return nil
	}
	chosen, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	declared, err := coverage.Declared(".", ".")
	if err != nil {
		return err
	}
	declared = slices.DeleteFunc(declared, func(d coverage.Declaration) bool { return !chosen.MatchString(d.Test) })
	counted, err := coverage.Read(os.Getenv(coverage.EnvFile))
	if err != nil {
		return err
	}
	if missing := coverage.Unproven(declared, counted); len(missing) > 0 {
		return errors.New(strings.Join(missing, "\n"))
	}
	return nil
}

// startServers starts the servers side by side and builds the binary meanwhile.
func startServers(ctx context.Context, dir string) error {
	if err := count(dir); err != nil {
		return err
	}
	var starts errgroup.Group
	starts.Go(func() (err error) {
		shared.postgres, err = testenv.StartPostgres(ctx, testenv.PostgresOptions{Settings: map[string]string{
			"max_connections": "300", "max_replication_slots": "60", "max_wal_senders": "60",
		}})
		return err
	})
	starts.Go(func() (err error) {
		shared.kafka, err = testenv.StartKafka(ctx, testenv.KafkaOptions{Proxied: true, Settings: map[string]string{
			"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "allow.everyone.if.no.acl.found": "true",
		}})
		return err
	})
	starts.Go(func() (err error) {
		shared.redis, err = testenv.StartRedis(ctx, testenv.RedisOptions{})
		return err
	})
	starts.Go(func() (err error) {
		shared.binary, err = cdctest.Binary(ctx, dir)
		return err
	})
	shared.mysql = map[string]*testenv.MySQLServer{}
	var started sync.Mutex
	for _, flavor := range binlogs() { //nolint:contextcheck // it only names them
		starts.Go(func() error {
			m, err := testenv.StartMySQL(ctx, testenv.MySQLOptions{Flavor: flavor})
			started.Lock()
			defer started.Unlock()
			shared.mysql[flavor] = m
			return err
		})
	}
	return starts.Wait()
}

func stopServers() error {
	err := errors.Join(shared.postgres.Close(), shared.kafka.Close(), shared.redis.Close())
	for _, m := range shared.mysql {
		err = errors.Join(err, m.Close())
	}
	return err
}

// source is a kind of database that the relay can read.
type source struct {
	name string
	// open creates a database for a test.
	open func(tb testing.TB) cdctest.Database
	// keeps are the possible checkpoints, the simplest one first. If SlotOnly is among them, the relay continues after its
	// checkpoint was lost.
	keeps []cdctest.Checkpoint
}

func (s source) can(c cdctest.Checkpoint) bool { return slices.Contains(s.keeps, c) }

// checkpoints returns those of wanted that are possible for the source.
func (s source) checkpoints(wanted ...cdctest.Checkpoint) []cdctest.Checkpoint {
	return slices.DeleteFunc(wanted, func(c cdctest.Checkpoint) bool { return !s.can(c) })
}

func (s source) least() cdctest.Checkpoint { return s.keeps[0] }

// EnvSources names the sources to test, "postgres,mysql,mariadb".
const EnvSources = "CDC_RELAY_SOURCES"

// sources returns the sources to test. A test that is not about one source runs on all.
func sources() map[string]source {
	all := map[string]source{
		"postgres":            postgres(),
		testenv.MySQLFlavor:   mysqlSource(testenv.MySQLFlavor),
		testenv.MariaDBFlavor: mysqlSource(testenv.MariaDBFlavor),
	}
	wanted := "postgres,mysql,mariadb"
	if text := os.Getenv(EnvSources); text != "" {
		wanted = text
	}
	maps.DeleteFunc(all, func(name string, _ source) bool { return !slices.Contains(strings.Split(wanted, ","), name) })
	return all
}

func postgres() source {
	return source{"postgres", openPostgres, (*cdctest.Postgres)(nil).Checkpoints()}
}

func mysqlSource(flavor string) source {
	return source{
		name:  flavor,
		open:  func(tb testing.TB) cdctest.Database { return newMySQL(tb, flavor) },
		keeps: (*cdctest.MySQL)(nil).Checkpoints(),
	}
}

func newMySQL(tb testing.TB, flavor string) *cdctest.MySQL {
	tb.Helper()
	server := shared.mysql[flavor]
	restart(tb, server.PID, server.Start, server.LogTail)
	m, err := cdctest.NewMySQL(tb.Context(), server, databaseName(tb))
	testenv.Must(tb, err)
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("%s's log ends with:\n%s", flavor, m.Server.LogTail(20))
		}
	})
	return m
}

// restart starts a server that crashed, or that a test left down when it failed: or else every test after it fails too, which is
// more than the suite runs again. A test that stops one of these servers runs alone.
func restart(tb testing.TB, pid func() int, start func(ctx context.Context) error, log func(lines int) string) {
	tb.Helper()
	shared.restarting.Lock()
	defer shared.restarting.Unlock()
	if pid() != 0 {
		return
	}
	fmt.Fprintf(os.Stderr, "%s found a server down; its log ends with:\n%s\n", tb.Name(), log(40))
	testenv.Must(tb, start(tb.Context()))
}

func openPostgres(tb testing.TB) cdctest.Database {
	tb.Helper()
	return newPostgres(tb)
}

func newPostgres(tb testing.TB, options ...string) *cdctest.Postgres {
	tb.Helper()
	restart(tb, shared.postgres.PID, shared.postgres.Start, shared.postgres.LogTail)
	p, err := cdctest.NewPostgres(tb.Context(), shared.postgres, databaseName(tb), options...)
	testenv.Must(tb, err)
	tb.Cleanup(func() { dropPostgres(tb, p) })
	return p
}

// onOwn starts a server for one test, which may stop it beside other tests, and returns what creates databases there.
func onOwn(t *testing.T, name string) (open func(tb testing.TB) cdctest.Database) {
	t.Helper()
	if name == "postgres" {
		server := testenv.Postgres(t, testenv.PostgresOptions{})
		return func(tb testing.TB) cdctest.Database {
			tb.Helper()
			p, err := cdctest.NewPostgres(tb.Context(), server, databaseName(tb))
			testenv.Must(tb, err)
			return p
		}
	}
	server := testenv.MySQL(t, testenv.MySQLOptions{Flavor: name})
	return func(tb testing.TB) cdctest.Database {
		tb.Helper()
		m, err := cdctest.NewMySQL(tb.Context(), server, databaseName(tb))
		testenv.Must(tb, err)
		return m
	}
}

// ownPostgres is for a test that leaves transactions open: a slot that another test makes would wait for them.
func ownPostgres(t *testing.T) *cdctest.Postgres {
	t.Helper()
	return onOwn(t, "postgres")(t).(*cdctest.Postgres)
}

// dropPostgres drops the slot too, because an unused slot retains WAL.
func dropPostgres(tb testing.TB, p *cdctest.Postgres) {
	tb.Helper()
	if tb.Failed() {
		tb.Logf("PostgreSQL's log ends with:\n%s", p.Server.LogTail(20))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), 2*time.Minute)
	defer cancel()
	err := cdctest.Await(ctx, "the slot to be dropped", func(ctx context.Context) (bool, error) {
		err := p.Exec(ctx, `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
			WHERE slot_name = $1`, p.Name())
		return err == nil, nil
	})
	if err != nil {
		tb.Error(err)
	}
}

// databaseName returns a unique name for the test that is valid for slots and topics.
func databaseName(tb testing.TB) string {
	tb.Helper()
	name := strings.TrimPrefix(strings.ToLower(tb.Name()), "test")
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), 55)]
}

// newRig returns a rig on the shared servers.
func newRig(tb testing.TB, db cdctest.Database, checkpoint cdctest.Checkpoint, change func(*cdctest.RigOptions)) *cdctest.Rig {
	tb.Helper()
	o := cdctest.RigOptions{
		Binary: shared.binary, DB: db, Kafka: shared.kafka, Redis: shared.redis, Checkpoint: checkpoint,
	}
	if change != nil {
		change(&o)
	}
	return cdctest.NewRig(tb, o)
}

// lastWords returns the lines of the process's last error.
func lastWords(log string) string {
	var words []string
	for line := range strings.Lines(log) {
		if said, ok := strings.CutPrefix(line, "cdc-relay: "); ok {
			words = append(words, strings.TrimSpace(said))
		}
	}
	return strings.Join(words, "; ")
}

// Package languages runs what is for projects in other languages: the clients, and the migrations that schema print writes.
package languages

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// The servers and the binary of all tests.
var (
	engines []*engine
	kafka   *testenv.KafkaCluster
	binary  string
)

// engine is a database server.
type engine struct {
	dialect string // of schema print
	pg      *testenv.PostgresServer
	my      *testenv.MySQLServer
}

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, startServers, stopServers)) }

func startServers(ctx context.Context, dir string) error {
	engines = []*engine{{dialect: "postgres"}, {dialect: "mysql"}, {dialect: "mariadb"}}
	var starts errgroup.Group
	starts.Go(func() (err error) {
		binary, err = cdctest.Binary(ctx, dir)
		return err
	})
	starts.Go(func() (err error) {
		kafka, err = testenv.StartKafka(ctx, testenv.KafkaOptions{})
		return err
	})
	for _, e := range engines {
		starts.Go(func() (err error) {
			if e.dialect == "postgres" {
				e.pg, err = testenv.StartPostgres(ctx, testenv.PostgresOptions{})
				return err
			}
			e.my, err = testenv.StartMySQL(ctx, testenv.MySQLOptions{Flavor: e.dialect})
			return err
		})
	}
	return starts.Wait()
}

func stopServers() error {
	err := kafka.Close()
	for _, e := range engines {
		if e.pg != nil {
			err = errors.Join(err, e.pg.Close())
		} else {
			err = errors.Join(err, e.my.Close())
		}
	}
	return err
}

// database creates an empty database.
func (e *engine) database(t *testing.T, name string) {
	t.Helper()
	create := func() error { return e.my.CreateDatabase(t.Context(), name) }
	if e.pg != nil {
		create = func() error { return e.pg.CreateDatabase(t.Context(), name) }
	}
	testenv.Must(t, create())
}

func (e *engine) exec(t *testing.T, database, statements string) {
	t.Helper()
	run := func() error { return e.my.Exec(t.Context(), database, statements) }
	if e.pg != nil {
		run = func() error { return e.pg.Exec(t.Context(), database, statements) }
	}
	testenv.Must(t, run())
}

// querier is a database of cdctest.
type querier interface {
	cdctest.Database
	Query(ctx context.Context, dest []any, query string, args ...any) error
}

func (e *engine) open(database string) querier {
	if e.pg != nil {
		return cdctest.OpenPostgres(e.pg, database)
	}
	return cdctest.OpenMySQL(e.my, database)
}

// addr is host:port.
func (e *engine) addr() string {
	if e.pg != nil {
		return e.pg.Addr()
	}
	return e.my.Addr()
}

func (e *engine) jdbc(database string) string {
	if e.pg != nil {
		return "jdbc:postgresql://" + e.addr() + "/" + database + "?user=postgres"
	}
	return "jdbc:mysql://" + e.addr() + "/" + database + "?user=root"
}

// relay returns a relay of the database, whose records go to a topic of its own.
func (e *engine) relay(t *testing.T, database string) (r *cdctest.Relay, topic string) {
	t.Helper()
	dir, topic := t.TempDir(), e.dialect+"-"+database
	testenv.Must(t, kafka.CreateTopic(t.Context(), topic, 1, nil))
	config := cdctest.Config{
		"source": e.open(database).Config(), "kafka": map[string]any{"brokers": kafka.Bootstrap()}, "routes": []any{map[string]any{"topic": topic}},
		"log": map[string]any{"format": "text"},
	}
	if e.my != nil {
		config["checkpoint"] = map[string]any{"file": filepath.Join(dir, "position")}
	}
	r, err := cdctest.NewRelay(binary, dir, config)
	testenv.Must(t, err)
	return r, topic
}

// output runs a command and returns what it prints.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(cmd.Args, " "), err, out, stderr.String())
	}
	return string(out)
}

// compile compiles Java files and returns the class path.
func compile(t *testing.T, files ...string) string {
	t.Helper()
	libs, dir := filepath.Join(testenv.Libraries(t, testenv.Java), "*"), t.TempDir()
	output(t, testenv.Interpreter(t, testenv.Java, append([]string{
		"-cp", libs, "org.eclipse.jdt.internal.compiler.batch.Main", "-17", "-nowarn", "-cp", jars(t), "-d", dir,
	}, files...)...))
	return dir + string(filepath.ListSeparator) + libs
}

// jars lists the libraries: the compiler expands no wildcards.
func jars(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(testenv.Libraries(t, testenv.Java), "*.jar"))
	testenv.Must(t, err)
	return strings.Join(found, string(filepath.ListSeparator))
}

func text(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	testenv.Must(t, err)
	return string(content)
}

// Package commands runs the built cdc-relay as a user would, against real servers.
package commands

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// The tests share the binary and one server of each kind. Each test creates its own database, topics and keys.
var (
	binary   string
	postgres *testenv.PostgresServer
	kafka    *testenv.KafkaCluster
	redis    *testenv.RedisServer
	mysqls   = map[string]*testenv.MySQLServer{testenv.MySQLFlavor: nil, testenv.MariaDBFlavor: nil}
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, startServers, stopServers)) }

func startServers(ctx context.Context, dir string) error {
	// The commands mostly wait, and one test runs them as another user.
	if err := errors.Join(flag.Set("test.parallel", "8"), os.Chmod(dir, 0o755)); err != nil {
		return err
	}
	var starts errgroup.Group
	starts.Go(func() error { return build(ctx, dir) })
	starts.Go(func() (err error) {
		postgres, err = testenv.StartPostgres(ctx, testenv.PostgresOptions{})
		return err
	})
	var made sync.Mutex
	for flavor := range mysqls {
		starts.Go(func() error {
			server, err := testenv.StartMySQL(ctx, testenv.MySQLOptions{Flavor: flavor})
			made.Lock()
			defer made.Unlock()
			mysqls[flavor] = server
			return err
		})
	}
	starts.Go(func() (err error) {
		kafka, err = testenv.StartKafka(ctx, testenv.KafkaOptions{Secure: true, Proxied: true})
		return err
	})
	starts.Go(func() (err error) {
		redis, err = testenv.StartRedis(ctx, testenv.RedisOptions{AppendOnly: true})
		return err
	})
	return starts.Wait()
}

// build copies the binary that CDC_RELAY_BIN names, or builds one, to a place where every user can run it.
func build(ctx context.Context, dir string) error {
	built, err := cdctest.Binary(ctx, dir)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(built)
	if err != nil {
		return err
	}
	binary = filepath.Join(dir, "cdc-relay")
	return os.WriteFile(binary, program, 0o755)
}

func stopServers() error {
	err := errors.Join(postgres.Close(), kafka.Close(), redis.Close())
	for _, server := range mysqls {
		err = errors.Join(err, server.Close())
	}
	return err
}

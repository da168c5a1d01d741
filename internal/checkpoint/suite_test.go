package checkpoint_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/cdc-relay/cdc-relay/internal/cdctest/checkpointtest"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(saverPath); path != "" {
		fmt.Fprintln(os.Stderr, saver(path))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

const key = "cdc-relay:{orders}"

func TestFileConformance(t *testing.T) {
	checkpointtest.Run(t, func(tb testing.TB) checkpointtest.Harness {
		path := filepath.Join(tb.TempDir(), "checkpoint.json")
		return checkpointtest.Harness{
			Exclusive: true,
			Open: func(tb testing.TB) checkpointtest.Store {
				return openFile(tb, path)
			},
			Put: func(tb testing.TB, value []byte) {
				err := os.Remove(path)
				if value != nil {
					err = os.WriteFile(path, value, 0o600)
				}
				if err != nil && !os.IsNotExist(err) {
					tb.Fatal(err)
				}
			},
			Get: func(tb testing.TB) []byte {
				value, err := os.ReadFile(path)
				if os.IsNotExist(err) {
					return nil
				}
				if err != nil {
					tb.Fatal(err)
				}
				return bytes.Clone(value)
			},
		}
	})
}

func options(addr string) checkpoint.RedisOptions {
	return checkpoint.RedisOptions{Mode: checkpoint.Standalone, Addrs: []string{addr}, Key: key}
}

func openRedis(tb testing.TB, o checkpoint.RedisOptions) *checkpoint.Redis {
	tb.Helper()
	s, err := checkpoint.NewRedis(tb.Context(), o)
	testenv.Must(tb, err)
	return s
}

func openFile(tb testing.TB, path string) *checkpoint.File {
	tb.Helper()
	return checkpoint.NewFile(path)
}

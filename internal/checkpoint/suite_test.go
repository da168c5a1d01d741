package checkpoint_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/goleak"

	"github.com/cdc-relay/cdc-relay/internal/cdctest/checkpointtest"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "cdc-relay:{orders}"

func TestRedisConformance(t *testing.T) {
	checkpointtest.Run(t, func(t testing.TB) checkpointtest.Harness {
		server := miniredis.RunT(t)
		return checkpointtest.Harness{
			Open: func(t testing.TB) checkpointtest.Store { return openRedis(t, options(server.Addr())) },
			Put: func(t testing.TB, value []byte) {
				t.Helper()
				if value == nil {
					server.FlushAll()
				} else if err := server.Set(key, string(value)); err != nil {
					t.Fatal(err)
				}
			},
			Get: func(t testing.TB) []byte {
				t.Helper()
				if !server.Exists(key) {
					return nil
				}
				value, err := server.Get(key)
				if err != nil {
					t.Fatal(err)
				}
				return []byte(value)
			},
		}
	})
}

func TestFileConformance(t *testing.T) {
	checkpointtest.Run(t, func(t testing.TB) checkpointtest.Harness {
		path := filepath.Join(t.TempDir(), "checkpoint.json")
		return checkpointtest.Harness{
			Exclusive: true,
			Open:      func(t testing.TB) checkpointtest.Store { return openFile(t, path) },
			Put: func(t testing.TB, value []byte) {
				t.Helper()
				err := os.Remove(path)
				if value != nil {
					err = os.WriteFile(path, value, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			},
			Get: func(t testing.TB) []byte {
				t.Helper()
				value, err := os.ReadFile(path)
				if os.IsNotExist(err) {
					return nil
				}
				if err != nil {
					t.Fatal(err)
				}
				return bytes.Clone(value)
			},
		}
	})
}

func options(addr string) checkpoint.RedisOptions {
	return checkpoint.RedisOptions{Mode: checkpoint.Standalone, Addrs: []string{addr}, Key: key}
}

func openRedis(t testing.TB, o checkpoint.RedisOptions) *checkpoint.Redis {
	t.Helper()
	s, err := checkpoint.NewRedis(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openFile(t testing.TB, path string) *checkpoint.File {
	t.Helper()
	s, err := checkpoint.NewFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

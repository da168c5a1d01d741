// Package checkpoint_test tests the checkpoint store on real Redis servers: standalone, with a sentinel, as a cluster.
package checkpoint_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest/checkpointtest"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

const key = "cdc-relay:{orders}"

// user has exactly the rights that the error for a missing right names.
const user = "relay on >secret resetchannels ~cdc-relay:* -@all +get +set +eval +evalsha +info"

func TestStandalone(t *testing.T) {
	server := testenv.Redis(t, testenv.RedisOptions{})
	conform(t, standalone(server), server)
}

func TestStandaloneWithTLSAndUser(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t, testenv.RedisOptions{TLS: true, Password: "root", Users: []string{user}})
	conform(t, withUser(withTLS(standalone(server), server)), server)
}

func TestSentinel(t *testing.T) {
	s := testenv.Sentinel(t, testenv.RedisOptions{Password: "secret"})
	conform(t, sentinel(s), s.Nodes[0])
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := testenv.Cluster(t, testenv.RedisOptions{Password: "root", Users: []string{user + " +cluster|slots"}})
	o := withUser(checkpoint.RedisOptions{Mode: checkpoint.Cluster, Addrs: c.Addrs()[:1], Key: key})
	conform(t, o, c.Nodes...)
}

// conform runs the suite; nodes are where the key may be.
func conform(t *testing.T, o checkpoint.RedisOptions, nodes ...*testenv.RedisServer) {
	t.Helper()
	checkpointtest.Run(t, func(tb testing.TB) checkpointtest.Harness {
		do(tb, nodes, "DEL", key)
		return checkpointtest.Harness{
			Open: func(tb testing.TB) checkpointtest.Store {
				return open(tb, o)
			},
			Put: func(tb testing.TB, value []byte) {
				if value == nil {
					do(tb, nodes, "DEL", key)
					return
				}
				do(tb, nodes, "SET", key, value)
			},
			Get: func(tb testing.TB) []byte {
				if do(tb, nodes, "EXISTS", key) == "0" {
					return nil
				}
				return []byte(do(tb, nodes, "GET", key))
			},
		}
	})
}

func standalone(server *testenv.RedisServer) checkpoint.RedisOptions {
	return checkpoint.RedisOptions{Mode: checkpoint.Standalone, Addrs: []string{server.Addr()}, Key: key}
}

func sentinel(s *testenv.RedisSentinel) checkpoint.RedisOptions {
	return checkpoint.RedisOptions{
		Mode: checkpoint.Sentinel, Addrs: []string{s.Sentinel.Addr()}, MasterName: testenv.SentinelMaster, Key: key,
		Password: password("secret"),
	}
}

func withUser(o checkpoint.RedisOptions) checkpoint.RedisOptions {
	o.Username, o.Password = "relay", password("secret")
	return o
}

func password(p string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return p, nil }
}

func open(tb testing.TB, o checkpoint.RedisOptions) *checkpoint.Redis {
	tb.Helper()
	s, err := checkpoint.NewRedis(tb.Context(), o)
	testenv.Must(tb, err)
	return s
}

// opened is open with a cleanup.
func opened(tb testing.TB, o checkpoint.RedisOptions) *checkpoint.Redis {
	tb.Helper()
	s := open(tb, o)
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// do runs a command on the node that has the key.
func do(tb testing.TB, nodes []*testenv.RedisServer, args ...any) string {
	tb.Helper()
	var err error
	for _, node := range nodes {
		var answer string
		answer, err = node.Do(tb.Context(), args...)
		if err == nil {
			return answer
		}
		if !strings.Contains(err.Error(), "MOVED") {
			break
		}
	}
	tb.Fatal(err)
	return ""
}

func at(generation, sequence uint64) cdc.Checkpoint {
	return cdc.Checkpoint{
		Source:     cdc.Source{SystemID: "7412345678901234567", Database: "orders", Slot: "cdc_relay_orders", Timeline: 1},
		Progress:   cdc.Progress{Position: "00000000016B3748"},
		Generation: generation,
		Sequence:   sequence,
		SavedAt:    time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

func withTLS(o checkpoint.RedisOptions, server *testenv.RedisServer) checkpoint.RedisOptions {
	o.TLS = func() (*tls.Config, error) { return trust(server.Certs.CAFile) }
	return o
}

func trust(caFile string) (*tls.Config, error) {
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

package testenv

import (
	"context"
	"testing"
	"time"
)

// startTimeout limits a start, or those of a package together (see [Main]), including the download of servers that are not cached yet.
const startTimeout = 5 * time.Minute

// Postgres starts a server for one test. A failed test logs the server's last log lines.
func Postgres(tb testing.TB, o PostgresOptions) *PostgresServer {
	tb.Helper()
	p, err := StartPostgres(starting(tb), o)
	return started(tb, "PostgreSQL", p, err)
}

// MySQL starts a MySQL or MariaDB server for one test.
func MySQL(tb testing.TB, o MySQLOptions) *MySQLServer {
	tb.Helper()
	m, err := StartMySQL(starting(tb), o)
	return started(tb, flavorName(o.Flavor), m, err)
}

// MySQLReplica starts a replica of primary for one test.
func MySQLReplica(tb testing.TB, primary *MySQLServer, o MySQLOptions) *MySQLServer {
	tb.Helper()
	m, err := startMySQLReplica(starting(tb), primary, o)
	return started(tb, flavorName(primary.Flavor)+" replica", m, err)
}

// starting returns a context for getting and starting a server.
func starting(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	tb.Cleanup(cancel)
	return ctx
}

// server is what a test can start.
type server interface {
	LogTail(lines int) string
	Close() error
}

// started returns a server that is stopped with the test, unless it could not be started.
func started[S server](tb testing.TB, name string, s S, err error) S {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("%s's log ends with:\n%s", name, s.LogTail(30))
		}
		if err := s.Close(); err != nil {
			tb.Errorf("stop %s: %v", name, err)
		}
	})
	return s
}

// Kafka starts a cluster for one test.
func Kafka(tb testing.TB, o KafkaOptions) *KafkaCluster {
	tb.Helper()
	k, err := StartKafka(starting(tb), o)
	return started(tb, "Kafka", k, err)
}

// Proxy starts a proxy to target (host:port) for one test.
func Proxy(tb testing.TB, target string) *ProxyServer {
	tb.Helper()
	p, err := startProxy(tb.Context(), target)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Errorf("stop proxy: %v", err)
		}
	})
	return p
}

// Redis starts a server for one test.
func Redis(tb testing.TB, o RedisOptions) *RedisServer {
	tb.Helper()
	r, err := StartRedis(starting(tb), o)
	return started(tb, "Redis", r, err)
}

// Sentinel starts a primary, a replica and a sentinel for one test.
func Sentinel(tb testing.TB, o RedisOptions) *RedisSentinel {
	tb.Helper()
	s, err := startRedisSentinel(starting(tb), o)
	return started(tb, "Redis", s, err)
}

// Cluster starts a Redis cluster of three nodes for one test.
func Cluster(tb testing.TB, o RedisOptions) *RedisCluster {
	tb.Helper()
	c, err := startRedisCluster(starting(tb), o)
	return started(tb, "Redis", c, err)
}

package testenv

import (
	"context"
	"testing"
	"time"
)

// startTimeout bounds a start, with the fetch of a server that is not cached yet.
const startTimeout = 5 * time.Minute

// Postgres starts a server for one test. The test fails if it cannot be had; a failed test shows the
// server's last log lines.
func Postgres(t testing.TB, o PostgresOptions) *PostgresServer {
	t.Helper()
	p, err := StartPostgres(starting(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { finish(t, "PostgreSQL", p.LogTail, p.Close) })
	return p
}

// starting is a context for getting and starting a server.
func starting(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	t.Cleanup(cancel)
	return ctx
}

func finish(t testing.TB, name string, logTail func(int) string, stop func() error) {
	t.Helper()
	if t.Failed() {
		t.Logf("%s's log ends with:\n%s", name, logTail(30))
	}
	if err := stop(); err != nil {
		t.Errorf("stop %s: %v", name, err)
	}
}

// Kafka starts a cluster for one test.
func Kafka(t testing.TB, o KafkaOptions) *KafkaCluster {
	t.Helper()
	k, err := StartKafka(starting(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { finish(t, "Kafka", k.LogTail, k.Close) })
	return k
}

// Proxy starts a proxy before target (host:port) for one test.
func Proxy(t testing.TB, target string) *ProxyServer {
	t.Helper()
	p, err := StartProxy(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("stop proxy: %v", err)
		}
	})
	return p
}

// Redis starts a server for one test.
func Redis(t testing.TB, o RedisOptions) *RedisServer {
	t.Helper()
	r, err := StartRedis(starting(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { finish(t, "Redis", r.LogTail, r.Close) })
	return r
}

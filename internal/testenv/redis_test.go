package testenv_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

func TestRedisServesAndKeepsItsData(t *testing.T) {
	t.Parallel()
	r := testenv.Redis(t, testenv.RedisOptions{AppendOnly: true})
	ctx := t.Context()
	do(t, r, "SET", "k", "v")
	r.Kill()
	must(t, r.Start(ctx))
	must(t, r.Stop(ctx))
	must(t, r.Start(ctx))
	if got := do(t, r, "GET", "k"); got != "v" {
		t.Fatalf("got %q", got)
	}
}

func TestRedisWithTLSAndUsers(t *testing.T) {
	t.Parallel()
	r := testenv.Redis(t, testenv.RedisOptions{
		TLS: true, Password: "root", Users: []string{"relay on >secret ~cdc-relay:* +@all"},
	})
	client := redis.NewClient(&redis.Options{
		Addr: r.Addr(), Username: "relay", Password: "secret",
		TLSConfig: trust(t, r.CAFile()),
	})
	defer func() { _ = client.Close() }()
	must(t, client.Set(t.Context(), "cdc-relay:x", "1", 0).Err())
	if err := client.Set(t.Context(), "other", "1", 0).Err(); err == nil {
		t.Fatal("the user may write a key outside its pattern")
	}
}

func TestSentinelPromotesTheReplica(t *testing.T) {
	t.Parallel()
	s := testenv.Sentinel(t, testenv.RedisOptions{Password: "secret", AppendOnly: true})
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: testenv.SentinelMaster, SentinelAddrs: []string{s.Sentinel.Addr()}, Password: "secret",
	})
	defer func() { _ = client.Close() }()
	must(t, client.Set(t.Context(), "k", "v", 0).Err())
	must(t, client.Wait(t.Context(), 1, 0).Err())
	s.Nodes[0].Kill()
	got, err := client.Get(t.Context(), "k").Result()
	for err != nil { // until there is a primary; the test's time limit ends it
		got, err = client.Get(t.Context(), "k").Result()
	}
	if got != "v" {
		t.Fatalf("got %q", got)
	}
}

func TestRedisClusterServesEverySlot(t *testing.T) {
	t.Parallel()
	c := testenv.Cluster(t, testenv.RedisOptions{})
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	defer func() { _ = client.Close() }()
	for _, key := range []string{"a", "b", "c", "d", "{e}1"} {
		must(t, client.Set(t.Context(), key, "v", 0).Err())
	}
}

func do(t *testing.T, r *testenv.RedisServer, args ...any) string {
	t.Helper()
	got, err := r.Do(t.Context(), args...)
	must(t, err)
	return got
}

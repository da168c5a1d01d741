package checkpoint_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// An error that waiting does not fix ends the run with one line that names the fix.
func TestMistakes(t *testing.T) {
	t.Parallel()
	plain := testenv.Redis(t, testenv.RedisOptions{})
	locked := testenv.Redis(t, testenv.RedisOptions{Password: "root", Users: []string{
		"relay on >secret ~cdc-relay:* +@all",
		"reader on >secret ~cdc-relay:* -@all +get +eval +evalsha",
		"mute on >secret ~cdc-relay:* -@all +get +set",
	}})
	secure := testenv.Redis(t, testenv.RedisOptions{TLS: true})
	cluster := testenv.Cluster(t, testenv.RedisOptions{})
	s := testenv.Sentinel(t, testenv.RedisOptions{Password: "secret"})

	for _, c := range []struct {
		name   string
		o      checkpoint.RedisOptions
		change func(*checkpoint.RedisOptions)
		want   []string
	}{
		{"no password", standalone(locked), nil, []string{"requires a password", "set checkpoint.redis.password"}},
		{"wrong password", standalone(locked), func(o *checkpoint.RedisOptions) { o.Password = password("x") }, []string{"refused the username or the password", "correct checkpoint.redis.username"}},
		{"wrong user", standalone(locked), func(o *checkpoint.RedisOptions) { o.Username, o.Password = "nobody", password("x") }, []string{"refused the username or the password"}},
		{
			"wrong sentinels' user", sentinel(s), func(o *checkpoint.RedisOptions) { o.SentinelUsername, o.SentinelPassword = "nobody", password("x") },
			[]string{"refused the username or the password", "or sentinel_username and sentinel_password"},
		},
		{"secret file missing", standalone(locked), func(o *checkpoint.RedisOptions) { o.Password = missing }, []string{"/nowhere", "correct checkpoint.redis.password"}},
		{"key outside the pattern", withUser(standalone(locked)), func(o *checkpoint.RedisOptions) { o.Key = "orders" }, []string{"denies the user a right", "ACL SETUSER", "~orders", "+evalsha"}},
		{"no right to write", withUser(standalone(locked)), func(o *checkpoint.RedisOptions) { o.Username = "reader" }, []string{"denies the user a right", "+set"}},
		{"no right to run scripts", withUser(standalone(locked)), func(o *checkpoint.RedisOptions) { o.Username = "mute" }, []string{"denies the user a right", "+evalsha"}},
		{"no right to choose the database", withUser(standalone(locked)), func(o *checkpoint.RedisOptions) { o.Username, o.DB = "mute", 1 }, []string{"denies the user a right", "+select"}},
		{"authority unknown", standalone(secure), func(o *checkpoint.RedisOptions) { o.TLS = anyTLS }, []string{"unknown authority", "set checkpoint.redis.tls.ca"}},
		{"certificate for another name", withTLS(standalone(secure), secure), func(o *checkpoint.RedisOptions) { o.TLS = otherName(o.TLS) }, []string{"invalid certificate", "example.com"}},
		{"authority file missing", standalone(secure), func(o *checkpoint.RedisOptions) {
			o.TLS = func() (*tls.Config, error) { return trust("/nowhere") }
		}, []string{"/nowhere", "correct checkpoint.redis.tls"}},
		{"standalone on a cluster", standalone(notOwner(t, cluster)), nil, []string{"is a cluster", "set checkpoint.redis.mode to cluster"}},
		{"cluster on a standalone", standalone(plain), func(o *checkpoint.RedisOptions) { o.Mode = checkpoint.Cluster }, []string{"is not a cluster", "set checkpoint.redis.mode to standalone"}},
		{"sentinel on a standalone", sentinel(s), func(o *checkpoint.RedisOptions) { o.Addrs = []string{plain.Addr()} }, []string{"not a sentinel", "set checkpoint.redis.mode to standalone"}},
		{"standalone on a sentinel", standalone(s.Sentinel), nil, []string{"lacks a command", "set checkpoint.redis.mode to sentinel"}},
		{"master unknown", sentinel(s), func(o *checkpoint.RedisOptions) { o.MasterName = "other" }, []string{`"other"`, "not known to the sentinels", "correct checkpoint.redis.master_name"}},
		{"database unknown", standalone(plain), func(o *checkpoint.RedisOptions) { o.DB = 999 }, []string{"no database of that number", "correct checkpoint.redis.db"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.change != nil {
				c.change(&c.o)
			}
			s := opened(t, c.o)
			_, _, err := s.Load(t.Context())
			if err == nil { // loading needs fewer rights than saving
				err = s.Save(t.Context(), at(1, 1))
			}
			t.Log(err)
			wantMistake(t, err, c.want)
		})
	}
}

func missing(context.Context) (string, error) {
	_, err := os.ReadFile("/nowhere")
	return "", err
}

func anyTLS() (*tls.Config, error) { return &tls.Config{MinVersion: tls.VersionTLS12}, nil }

func otherName(of func() (*tls.Config, error)) func() (*tls.Config, error) {
	return func() (*tls.Config, error) {
		c, err := of()
		if err == nil {
			c.ServerName = "example.com"
		}
		return c, err
	}
}

func wantMistake(t *testing.T, err error, want []string) {
	t.Helper()
	var stop *cdc.StopError
	if !errors.As(err, &stop) || stop.Class != cdc.ClassConfig {
		t.Fatalf("want a stop for the configuration, got %v", err)
	}
	wantText(t, cdc.Explain(err), want)
}

func wantText(t *testing.T, text string, want []string) {
	t.Helper()
	for _, part := range want {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not say %q", text, part)
		}
	}
	if strings.Contains(text, "secret") || strings.ContainsAny(text, "\n") {
		t.Errorf("%q shows a secret or is more than one line", text)
	}
}

// wantPassing checks an error that the relay retries.
func wantPassing(t *testing.T, err error, want ...string) {
	t.Helper()
	var stop *cdc.StopError
	if err == nil || errors.As(err, &stop) || errors.Is(err, cdc.ErrFenced) {
		t.Fatalf("want an error that may pass, got %v", err)
	}
	t.Log(err)
	wantText(t, cdc.Explain(err), want)
}

// A name that does not resolve may resolve later.
func TestUnknownHostPasses(t *testing.T) {
	store := opened(t, checkpoint.RedisOptions{Mode: checkpoint.Standalone, Addrs: []string{"redis.invalid:6379"}, Key: "cdc-relay:{orders}"})
	_, _, err := store.Load(t.Context())
	wantPassing(t, err, "redis.invalid", "no such host", "correct checkpoint.redis.addrs or the DNS")
}

// Saves fail fast while Redis is down, and succeed once it is back, empty or with older data.
func TestRestart(t *testing.T) {
	server := testenv.Redis(t, testenv.RedisOptions{AppendOnly: true})
	s := opened(t, standalone(server))
	save(t, s, at(3, 1))

	server.Kill()
	for n := uint64(2); n < 12; n++ { // more often than the pool has connections
		within(t, time.Second, func() {
			wantPassing(t, s.Save(t.Context(), at(3, n)), "connection refused", "start it, correct checkpoint.redis.addrs")
		})
	}
	testenv.Must(t, server.Start(t.Context()))
	cdctest.Retry(t, time.Minute, "save after a restart", func(ctx context.Context) error { return s.Save(ctx, at(3, 20)) })

	do(t, []*testenv.RedisServer{server}, "FLUSHALL")
	save(t, s, at(3, 21))
	if c, found, err := s.Load(t.Context()); err != nil || !found || c.Sequence != 21 {
		t.Fatalf("after all that: %+v, found %t, error %v", c, found, err)
	}
}

// A server that accepts connections and never answers delays a save by at most three seconds.
func TestFrozen(t *testing.T) {
	server := testenv.Redis(t, testenv.RedisOptions{})
	s := opened(t, standalone(server))
	save(t, s, at(1, 1))
	testenv.Must(t, server.Pause())
	var err error
	within(t, 4*time.Second, func() { err = s.Save(t.Context(), at(1, 2)) })
	testenv.Must(t, server.Resume())
	wantPassing(t, err, "cannot be asked (no answer in time)")
	// The unanswered save was executed later: it can be repeated.
	cdctest.Retry(t, time.Minute, "repeated save", func(ctx context.Context) error { return s.Save(ctx, at(1, 2)) })
}

// A save to a server that refuses writes for a while is retried.
func TestPassingStates(t *testing.T) {
	nodes := []*testenv.RedisServer{testenv.Redis(t, testenv.RedisOptions{})}
	s := opened(t, standalone(nodes[0]))
	sequence := uint64(0)
	for _, c := range []struct {
		name        string
		ail         [][]any
		fix         []any
		want, wants string
	}{
		{
			"read-only replica",
			[][]any{{"REPLICAOF", "127.0.0.1", "1"}},
			[]any{"REPLICAOF", "NO", "ONE"},
			"is a read-only replica", "set checkpoint.redis.mode to sentinel",
		},
		{
			"replica without its master",
			[][]any{{"CONFIG", "SET", "replica-serve-stale-data", "no"}, {"REPLICAOF", "127.0.0.1", "1"}},
			[]any{"REPLICAOF", "NO", "ONE"},
			"MASTERDOWN", "MASTER is down",
		},
		{
			"too few replicas",
			[][]any{{"CONFIG", "SET", "min-replicas-to-write", "1"}},
			[]any{"CONFIG", "SET", "min-replicas-to-write", "0"},
			"NOREPLICAS", "Not enough good replicas",
		},
		{
			"out of memory",
			[][]any{{"CONFIG", "SET", "maxmemory", "1"}},
			[]any{"CONFIG", "SET", "maxmemory", "0"},
			"OOM ", "'maxmemory'",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			sequence++
			for _, command := range c.ail {
				do(t, nodes, command...)
			}
			wantPassing(t, s.Save(t.Context(), at(1, sequence)), c.want, c.wants)
			do(t, nodes, c.fix...)
			save(t, s, at(1, sequence))
		})
	}
}

// Redis does not answer a TLS handshake on a plain port, so the error can only guess the cause.
func TestTLSOnAPlainPort(t *testing.T) {
	t.Parallel()
	o := standalone(testenv.Redis(t, testenv.RedisOptions{}))
	o.TLS = anyTLS
	_, _, err := opened(t, o).Load(t.Context())
	wantPassing(t, err, "no answer in time", "checkpoint.redis.tls if, and only if, this port uses TLS")
}

// Redis closes a plaintext connection to a TLS port without an answer.
func TestPlainTextOnATLSPort(t *testing.T) {
	_, _, err := opened(t, standalone(testenv.Redis(t, testenv.RedisOptions{TLS: true}))).Load(t.Context())
	wantPassing(t, err, "cannot be asked (", "set checkpoint.redis.tls")
}

// A server with maxclients connections refuses another one and closes it, mostly before the client has read why.
func TestRedisWithoutAFreeConnection(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t, testenv.RedisOptions{})
	held, err := net.Dial("tcp", server.Addr())
	testenv.Must(t, err)
	t.Cleanup(func() { _ = held.Close() })
	limit := func(n int) {
		t.Helper()
		answer := make([]byte, len("+OK\r\n"))
		_, err := fmt.Fprintf(held, "CONFIG SET maxclients %d\r\n", n)
		if err == nil {
			_, err = io.ReadFull(held, answer)
		}
		if err != nil || string(answer) != "+OK\r\n" {
			t.Fatalf("%q, %v", answer, err)
		}
	}
	limit(1)
	store := opened(t, standalone(server))
	for range 20 {
		_, _, err := store.Load(t.Context())
		wantPassing(t, err, "redis "+server.Addr(), "clients")
	}
	limit(10000)
	save(t, store, at(1, 1))
}

// Saves fail fast until the sentinels have promoted the replica, and then succeed; an older run stays fenced on the new
// master.
func TestFailover(t *testing.T) {
	s := testenv.Sentinel(t, testenv.RedisOptions{Password: "secret", AppendOnly: true})
	store := opened(t, sentinel(s))
	save(t, store, at(2, 1))
	if n := do(t, s.Nodes[:1], "WAIT", 1, 5000); n != "1" {
		t.Fatalf("%s replicas have the checkpoint", n)
	}

	s.Nodes[0].Kill()
	wantPassing(t, store.Save(t.Context(), at(2, 2)))
	sequence := uint64(3)
	cdctest.Retry(t, time.Minute, "save after a failover", func(ctx context.Context) (err error) {
		within(t, 4*time.Second, func() {
			sequence++
			err = store.Save(ctx, at(2, sequence))
		})
		return err
	})
	if err := store.Save(t.Context(), at(1, 99)); !errors.Is(err, cdc.ErrFenced) {
		t.Errorf("an older run on the new master: %v", err)
	}
}

// Saves fail fast while the key's node is down, and succeed once it is back.
func TestClusterNodeLost(t *testing.T) {
	c := testenv.Cluster(t, testenv.RedisOptions{AppendOnly: true})
	store := opened(t, checkpoint.RedisOptions{Mode: checkpoint.Cluster, Addrs: c.Addrs(), Key: key})
	save(t, store, at(1, 1))
	owner := owner(t, c)
	owner.Kill()
	within(t, 4*time.Second, func() { wantPassing(t, store.Save(t.Context(), at(1, 2))) })
	testenv.Must(t, owner.Start(t.Context()))
	cdctest.Retry(t, time.Minute, "save after the node is back", func(ctx context.Context) error { return store.Save(ctx, at(1, 3)) })
}

// owner returns the node that holds the key.
func owner(t *testing.T, c *testenv.RedisCluster) *testenv.RedisServer {
	t.Helper()
	for _, node := range c.Nodes {
		if _, err := node.Do(t.Context(), "EXISTS", key); err == nil {
			return node
		}
	}
	t.Fatal("no node holds the key")
	return nil
}

// notOwner returns a node that does not hold the key.
func notOwner(t *testing.T, c *testenv.RedisCluster) *testenv.RedisServer {
	t.Helper()
	has := owner(t, c)
	for _, node := range c.Nodes {
		if node != has {
			return node
		}
	}
	return nil
}

// within fails the test if each of some attempts takes longer: a busy machine is slow at times, a call that waits is slow each time.
func within(t *testing.T, limit time.Duration, attempt func()) {
	t.Helper()
	for range 5 {
		start := time.Now()
		attempt()
		if time.Since(start) <= limit {
			return
		}
	}
	t.Errorf("five attempts took longer than %s each", limit)
}

func save(t *testing.T, s *checkpoint.Redis, c cdc.Checkpoint) {
	t.Helper()
	testenv.Must(t, s.Save(t.Context(), c))
}

package checkpoint_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	peer "github.com/alicebob/miniredis/v2/server"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

func startRedis(t *testing.T) (*miniredis.Miniredis, *checkpoint.Redis) {
	t.Helper()
	server := miniredis.RunT(t)
	s := openRedis(t, options(server.Addr()))
	t.Cleanup(func() { _ = s.Close() })
	return server, s
}

// Errors of states into which a test cannot bring a real server. The others are in test/checkpoint.
func TestRedisStates(t *testing.T) {
	server, s := startRedis(t)
	for answer, parts := range map[string][]string{
		"LOADING Redis is loading the dataset in memory":                                      {"in redis", "is loading the dataset"},
		"MISCONF Redis is configured to save RDB snapshots, but it is unable to persist":      {"unable to persist"},
		"CLUSTERDOWN Hash slot not served":                                                    {"CLUSTERDOWN"},
		"ERR max number of clients reached":                                                   {"max number of clients"},
		"ERR Error running script: @user_script:1: -READONLY You can't write against":         {"read-only replica", "mode to sentinel"},
		"ERR something that nobody has seen before":                                           {"something that nobody has seen before", server.Addr()},
		"UNKILLABLE Sorry the script already executed write commands against the dataset \r ": {"UNKILLABLE"},
	} {
		server.SetError(strings.TrimSpace(answer))
		wantPassing(t, s.Save(t.Context(), example()), append(parts, server.Addr())...)
		_, _, err := s.Load(t.Context())
		wantPassing(t, err, parts...)
		wantPassing(t, s.Reset(t.Context()), parts...)
		if f := s.Check(t.Context()); len(f) != 1 || f[0].Severity != cdc.SeverityFail {
			t.Errorf("%s: %+v", answer, f)
		}
	}
	server.SetError("")
	// An answer that the script cannot have given, as a proxy or another server may give it, saves and refuses nothing.
	server.Server().SetPreHook(func(c *peer.Peer, cmd string, _ ...string) bool {
		if cmd == "EVALSHA" {
			c.WriteStrings([]string{"0", stored})
		}
		return cmd == "EVALSHA"
	})
	wantPassing(t, s.Save(t.Context(), example()), "save checkpoint", server.Addr())
	server.Server().SetPreHook(nil)
	testenv.Must(t, s.Save(t.Context(), example()))
}

// A save replaces only what it was compared with, and is one call if that is what was saved last.
func TestRedisReplacesWhatItCompared(t *testing.T) {
	server, s := startRedis(t)
	testenv.Must(t, s.Save(t.Context(), numbered(1, 0)))
	later, err := checkpoint.Encode(numbered(3, 0))
	testenv.Must(t, err)
	calls := 0
	server.Server().SetPreHook(func(_ *peer.Peer, cmd string, _ ...string) bool {
		if cmd == "EVALSHA" {
			calls++
		}
		return cmd == "EVALSHA" && calls == 3 && server.Set(key, string(later)) != nil
	})
	testenv.Must(t, s.Save(t.Context(), numbered(1, 1)))
	other := openRedis(t, options(server.Addr()))
	defer other.Close()
	if err := other.Save(t.Context(), numbered(2, 0)); !errors.Is(err, cdc.ErrFenced) || calls != 3 {
		t.Errorf("saved over a later generation: %v, %d calls", err, calls)
	}
}

// A key with other content is not overwritten.
func TestRedisWrongType(t *testing.T) {
	server, s := startRedis(t)
	server.HSet(key, "field", "value")
	_, _, err := s.Load(t.Context())
	wantStop(t, err, cdc.ClassPosition, key, "WRONGTYPE", "checkpoint.redis.key")
	wantStop(t, s.Save(t.Context(), example()), cdc.ClassPosition, key, "WRONGTYPE")
	if server.HGet(key, "field") != "value" {
		t.Error("the other content is gone")
	}
	testenv.Must(t, s.Reset(t.Context()))
	c, _, err := s.Load(t.Context())
	testenv.Must(t, err)
	testenv.Must(t, s.Save(t.Context(), numbered(c.Generation+1, 0)))
}

// The mark of a reset fences a running relay, and expires.
func TestRedisReset(t *testing.T) {
	server, s := startRedis(t)
	testenv.Must(t, s.Save(t.Context(), numbered(7, 12)))
	testenv.Must(t, s.Reset(t.Context()))
	err := s.Save(t.Context(), numbered(7, 13))
	wantStop(t, err, cdc.ClassFenced, key, "was reset at", "generation 7", "start it again")
	if !errors.Is(err, cdc.ErrFenced) {
		t.Errorf("%v is not ErrFenced", err)
	}
	if ttl := server.TTL(key); ttl != 7*24*time.Hour {
		t.Errorf("the mark expires after %s", ttl)
	}
	testenv.Must(t, s.Save(t.Context(), numbered(9, 0)))
	if ttl := server.TTL(key); ttl != 0 {
		t.Errorf("a checkpoint expires after %s", ttl)
	}
}

func TestRedisSecrets(t *testing.T) {
	server := miniredis.RunT(t)
	server.RequireUserAuth("relay", "secret")
	asked := 0
	o := options(server.Addr())
	o.Username, o.Password = "relay", func(context.Context) (string, error) { asked++; return "secret", nil }
	s := openRedis(t, o)
	testenv.Must(t, s.Save(t.Context(), numbered(1, 1)))
	testenv.Must(t, s.Save(t.Context(), numbered(1, 2)))
	if asked != 1 {
		t.Errorf("the password was read %d times for one connection", asked)
	}
	server.Close()
	testenv.Must(t, server.Restart())
	testenv.Must(t, s.Save(t.Context(), numbered(1, 3)))
	if asked != 2 {
		t.Errorf("the password was read %d times for two connections", asked)
	}
	testenv.Must(t, s.Close())
}

func TestRedisOptions(t *testing.T) {
	unreadable := options("127.0.0.1:1")
	unreadable.Mode, unreadable.MasterName = checkpoint.Sentinel, "m"
	unreadable.SentinelPassword = func(context.Context) (string, error) { return "", errors.New("open /nowhere: no such file") }
	_, err := checkpoint.NewRedis(t.Context(), unreadable)
	wantStop(t, err, cdc.ClassConfig, "checkpoint.redis.sentinel_password", "/nowhere")

	ended, end := context.WithCancel(t.Context())
	end()
	unreadable.SentinelPassword = func(ctx context.Context) (string, error) { return "", ctx.Err() }
	if _, err = checkpoint.NewRedis(ended, unreadable); !errors.Is(err, context.Canceled) || errors.As(err, new(*cdc.StopError)) {
		t.Error(err)
	}

	plain := miniredis.RunT(t)
	o := options(plain.Addr())
	o.TLS = func() (*tls.Config, error) { return nil, nil } //nolint:nilnil // no TLS, as crypto/tls has it
	s := openRedis(t, o)
	defer s.Close()
	testenv.Must(t, s.Save(t.Context(), example()))
}

// The client's log lines go to the relay's log. The client's logger is a package variable that cannot be read, so the
// test does not restore it.
func TestRedisLog(t *testing.T) {
	var text bytes.Buffer
	checkpoint.LogTo(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer checkpoint.LogTo(slog.New(slog.DiscardHandler))
	s := openRedis(t, options("127.0.0.1:1"))
	defer s.Close()
	_, _, err := s.Load(t.Context())
	wantPassing(t, err, "cannot be asked (connection refused)", "start it, correct checkpoint.redis.addrs")
	if !strings.Contains(text.String(), "level=DEBUG") || !strings.Contains(text.String(), "failed to dial") {
		t.Errorf("log: %s", text.String())
	}
}

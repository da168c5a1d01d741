package checkpoint_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// The sentinels' password is changed, and the master fails: the store reads the new one and finds the next master.
func TestSentinelPasswordIsReadAgain(t *testing.T) {
	t.Parallel()
	s := testenv.Sentinel(t, testenv.RedisOptions{Password: "secret"})
	setPassword := func(name string) {
		t.Helper()
		if _, err := s.Sentinel.Do(t.Context(), "ACL", "SETUSER", "relay", "on", "resetpass", ">"+name, "allchannels", "+@all"); err != nil {
			t.Fatal(err)
		}
	}
	setPassword("old")
	var now atomic.Value
	now.Store("old")
	o := sentinel(s)
	o.SentinelUsername, o.SentinelPassword = "relay", func(context.Context) (string, error) { return now.Load().(string), nil }
	store := opened(t, o)
	eventually(t, time.Minute, "save", func(ctx context.Context) error { return store.Save(ctx, at(1, 1)) })
	setPassword("new")
	if _, err := s.Sentinel.Do(t.Context(), "CLIENT", "KILL", "USER", "relay"); err != nil {
		t.Fatal(err)
	}
	s.Nodes[0].Kill()
	now.Store("new")
	eventually(t, time.Minute, "save after the failover", func(ctx context.Context) error { return store.Save(ctx, at(1, 2)) })
}

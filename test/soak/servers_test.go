package soak

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// serverFaults are the faults of database, Kafka and Redis.
func (p *pair) serverFaults() []cdctest.Action {
	r := p.rig
	return []cdctest.Action{
		r.KillBroker(5 * time.Second), r.FreezeBroker(2 * time.Second),
		p.changesLeader(r.RestartDatabase(cdctest.Crash, time.Second)), p.changesLeader(r.RestartDatabase(cdctest.Shutdown, time.Second)),
		p.remembered(r.FreezeRedis(2 * time.Second)), p.remembered(r.FlushRedis()),
		p.remembered(p.redis.killed(r)), p.remembered(p.redis.failedOver(r)),
	}
}

// changesLeader announces that the standby may take over.
func (p *pair) changesLeader(a cdctest.Action) cdctest.Action {
	do := a.Do
	a.Do = func(ctx context.Context, random *rand.Rand) error {
		p.rig.FaultUnbounded(a.Name)
		return do(ctx, random)
	}
	return a
}

// remembered keeps a copy of the checkpoint for an administrator to restore.
func (p *pair) remembered(a cdctest.Action) cdctest.Action {
	do := a.Do
	a.Do = func(ctx context.Context, random *rand.Rand) error {
		if err := p.redis.remember(ctx, p.rig.RedisKey()); err != nil {
			return err
		}
		return do(ctx, random)
	}
	return a
}

// failoverRedis is two servers without replication behind one address: the one that takes over has an old copy of the
// checkpoint.
type failoverRedis struct {
	nodes   [2]*testenv.RedisServer
	address *testenv.ProxyServer

	mu   sync.Mutex
	now  int    // the node behind the address
	copy string // of the checkpoint, made before the last fault
}

func newFailoverRedis(t *testing.T) *failoverRedis {
	t.Helper()
	f := &failoverRedis{}
	for i := range f.nodes {
		f.nodes[i] = testenv.Redis(t, testenv.RedisOptions{})
	}
	f.address = testenv.Proxy(t, f.nodes[0].Addr())
	return f
}

func (f *failoverRedis) current() *testenv.RedisServer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[f.now]
}

func (f *failoverRedis) remember(ctx context.Context, key string) error {
	value, err := f.current().Do(ctx, "GETRANGE", key, "0", "-1") // "" if there is none
	if err == nil && value != "" {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.copy = value
	}
	return err
}

// restore puts the copy back, unless a relay has saved again.
func (f *failoverRedis) restore(ctx context.Context, key string) error {
	f.mu.Lock()
	value := f.copy
	f.mu.Unlock()
	return cdctest.Await(ctx, "Redis to take the checkpoint back", func(ctx context.Context) (bool, error) {
		_, err := f.current().Do(ctx, "SETNX", key, value)
		return err == nil, nil // Redis may be down
	})
}

// killed kills Redis, which persists nothing.
func (f *failoverRedis) killed(r *cdctest.Rig) cdctest.Action {
	return r.Disturbing(cdctest.Action{Name: "kill Redis", Do: func(ctx context.Context, random *rand.Rand) error {
		node := f.current()
		node.Kill()
		sleep(ctx, time.Duration(random.Int64N(int64(4*time.Second))))
		return node.Start(ctx)
	}})
}

// failedOver moves the address to the other server, whose copy is older.
func (f *failoverRedis) failedOver(r *cdctest.Rig) cdctest.Action {
	return r.Disturbing(cdctest.Action{Name: "fail Redis over to an old copy", Do: func(ctx context.Context, random *rand.Rand) error {
		f.mu.Lock()
		value, other := f.copy, f.nodes[1-f.now]
		f.mu.Unlock()
		sleep(ctx, time.Duration(random.Int64N(int64(2*time.Second)))) // so that the copy grows old
		if _, err := other.Do(ctx, "SET", r.RedisKey(), value); err != nil {
			return err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.now = 1 - f.now
		r.Redis = other
		return f.address.Redirect(other.Addr()) //nolint:contextcheck // the proxy has its own
	}})
}

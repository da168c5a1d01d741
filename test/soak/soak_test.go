// Package soak injects random faults under load for a given time, and then compares what was published with what was
// committed.
package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// envTime is the duration, such as "1h"; the default of a few seconds only tests the soak itself.
const envTime = "CDC_RELAY_SOAK"

func TestSoak(t *testing.T) {
	lasts := 20 * time.Second
	if text := os.Getenv(envTime); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", envTime, err)
		}
	}
	r := newRig(t)
	r.Start()
	r.Load(cdctest.Workload{Writers: 3, Pause: 20 * time.Millisecond})
	s := &supervisor{rig: r}
	relays := cdctest.NewNemesis(r.Seed, s.guarded(r.KillRelay(), 4), s.guarded(r.TermRelay(), 2), s.guarded(r.FreezeRelay(3*time.Second), 1))
	servers := cdctest.NewNemesis(r.Seed+1,
		r.KillBroker(5*time.Second), r.FreezeBroker(2*time.Second),
		r.RestartDatabase(cdctest.Crash, time.Second), r.RestartDatabase(cdctest.Shutdown, time.Second),
		r.FreezeRedis(2*time.Second), r.FlushRedis(),
	)
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var running sync.WaitGroup
	for _, n := range []*cdctest.Nemesis{relays, servers} {
		running.Go(func() {
			if err := n.Run(ctx, 4*time.Second); err != nil {
				t.Error(err)
				cancel()
			}
		})
	}
	running.Wait()
	r.Must(s.revive(t.Context()))
	r.VerifyWithin(10 * time.Minute)
	t.Logf("faults of the relay:\n%s\nand of the servers:\n%s", relays, servers)
}

func newRig(t *testing.T) *cdctest.Rig {
	t.Helper()
	binary, err := cdctest.Binary(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	db, err := cdctest.NewPostgres(t.Context(), testenv.Postgres(t, testenv.PostgresOptions{}), "soak")
	if err != nil {
		t.Fatal(err)
	}
	return cdctest.NewRig(t, cdctest.RigOptions{
		Binary: binary, DB: db, Checkpoint: cdctest.InRedis,
		Kafka: testenv.Kafka(t, testenv.KafkaOptions{Brokers: 3}),
		Redis: testenv.Redis(t, testenv.RedisOptions{}),
	})
}

// supervisor restarts a relay that exited because a server was unavailable for too long at its start, as systemd or
// Kubernetes would. A relay may not end for another reason.
type supervisor struct{ rig *cdctest.Rig }

// guarded is an action on a running relay.
func (s *supervisor) guarded(a cdctest.Action, weight int) cdctest.Action {
	do := a.Do
	a.Weight = weight
	a.Do = func(ctx context.Context, random *rand.Rand) error {
		if err := s.revive(ctx); err != nil {
			return err
		}
		return do(ctx, random)
	}
	return a
}

func (s *supervisor) revive(ctx context.Context) error {
	if s.rig.Relay.Running() {
		return nil
	}
	if log := s.rig.Relay.Log(); !strings.Contains(log, "waiting for a server") {
		return fmt.Errorf("the relay has ended: %s", log)
	}
	return s.rig.Relay.Start(ctx)
}

package faults

import (
	"bytes"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// EnvBefore names the binary of an earlier build, from which TestUpgrade upgrades: see `make upgrade`.
const EnvBefore = "CDC_RELAY_BEFORE"

// An earlier build leads, with events in flight, dead letters and a drop that it was asked for, when it is frozen and killed. The present one,
// its standby, takes over and does what was asked; then the earlier one takes over from it, and the other way round. Each reads the position and
// the letters of the other.
func TestUpgrade(t *testing.T) {
	before := os.Getenv(EnvBefore)
	if before == "" {
		t.Skip("there is no earlier build: run make upgrade")
	}
	inBothModes(t, func(t *testing.T, s source, delivery func(*cdctest.RigOptions)) {
		r := letterRig(t, s, func(o *cdctest.RigOptions) { delivery(o); o.Checkpoint = cdctest.InRedis })
		delete(r.Config, "in_flight") // which has another name in 0.1.0
		r.Window = 32768
		now := r.Relay
		old, err := cdctest.NewRelay(before, t.TempDir(), r.Config)
		r.Must(err)
		t.Cleanup(func() { r.Must(old.Close()) })
		r.Relay = old
		r.Start()
		r.Load(cdctest.Workload{})
		retried, dropped := letter(r, "retried"), letter(r, "dropped")
		r.Exclude(dropped)
		r.AwaitProgress(2000)
		r.Relay = now
		awaitCounts(r, "map[held:6 unroutable:2]")
		routeStrays(r)
		startStandby(t, r, now)

		r.Must(old.Signal(syscall.SIGSTOP))
		r.Fault("SIGSTOP")
		r.Relay = old
		asking := &commands{t: t, r: r}
		asking.start("drop", dropped.ID.String())
		newLetterLog(t, r).await("the drop", func(k *kgo.Record) bool {
			return k.Topic == indexTopic(r) && bytes.Contains(k.Value, []byte(`"do":"drop"`))
		})
		r.Kill()
		r.Relay = now
		r.Must(now.AwaitReady(r.Within(time.Minute)))
		asking.running.Wait()
		awaitCounts(r, "map[held:3 unroutable:1]")
		asking.start("retry", retried.ID.String())
		asking.running.Wait()
		awaitCounts(r, "map[]")

		for _, next := range []*cdctest.Relay{old, now} {
			startStandby(t, r, next)
			r.AwaitProgress(500)
			r.Kill()
			r.Relay = next
			r.AwaitProgress(500)
		}
		r.Verify()
	})
}

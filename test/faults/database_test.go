package faults

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// The database crashes and recovers. The relay reconnects and filters what the server sends again.
//
//covers:all 10 events
func TestDatabaseCrash(t *testing.T) {
	onEachAlone(t, func(t *testing.T, s source) {
		r := newRig(t, s.open(t), s.least(), nil)
		r.Start()
		r.Load(cdctest.Workload{})
		for range 2 {
			r.AwaitProgress(1000)
			r.Must(r.RestartDatabase(cdctest.Crash, 200*time.Millisecond).Do(r.Within(time.Minute), r.Random))
		}
		r.AwaitProgress(1000)
		r.Verify()
		startedOnce(r)
	})
}

// The database and the relay crash together.
//
//covers:all 10 events both
func TestDatabaseAndRelayCrash(t *testing.T) {
	onEachAlone(t, func(t *testing.T, s source) {
		for _, checkpoint := range s.checkpoints(cdctest.InFile, cdctest.SlotOnly) {
			t.Run(string(checkpoint), func(t *testing.T) {
				rigs := besides(t, s.open, checkpoint, nil)
				loaded(rigs)
				awaitProgress(rigs, 2000)
				db := rigs[0].DB
				rigs[0].Must(db.Stop(rigs[0].Within(time.Minute), cdctest.Crash))
				for _, r := range rigs {
					r.Kill()
					if checkpoint == cdctest.SlotOnly { // the slot's position on disk is that of the server's last checkpoint
						r.FaultUnbounded("database crash")
					}
				}
				rigs[0].Must(db.Start(rigs[0].Within(time.Minute)))
				for _, r := range rigs {
					r.Start()
				}
				awaitProgress(rigs, 1000)
				verify(rigs)
			})
		}
	})
}

// The database shuts down while Kafka is down: the relay neither delays the shutdown nor floods the server with replies,
// and continues afterwards.
//
//covers:all 11 events both
func TestDatabaseShutdownWhileKafkaIsDown(t *testing.T) {
	var servers [][]*cdctest.Rig
	for name, s := range sources() {
		open := func(tb testing.TB) cdctest.Database { tb.Helper(); return s.open(ofSource{tb, name}) }
		servers = append(servers, besides(t, open, s.least(), nil))
	}
	all := slices.Concat(servers...)
	loaded(all)
	awaitProgress(all, 1000)
	resume := pauseKafka(t)
	for _, r := range all {
		awaitInFlight(r, float64(r.Window)*3/4)
	}
	stopLoads(all) // of the databases that wait for their turn, too
	for _, rigs := range servers {
		shutDownUnflooded(t, rigs)
		rigs[0].Must(rigs[0].DB.Start(rigs[0].Within(time.Minute)))
	}
	resume()
	for _, r := range all {
		r.AwaitEvents(r.Append("after", 10))
	}
	verify(all)
}

// shutDownUnflooded shuts the rigs' server down, which must not have to be killed, and counts the writes of the relays.
func shutDownUnflooded(t *testing.T, rigs []*cdctest.Rig) {
	t.Helper()
	writes := func() (n []int) {
		for _, r := range rigs {
			w, err := r.Relay.Writes()
			r.Must(err)
			n = append(n, w)
		}
		return n
	}
	before, began := writes(), time.Now()
	rigs[0].Must(rigs[0].DB.Stop(rigs[0].Within(15*time.Second), cdctest.Shutdown))
	took := time.Since(began)
	for i, after := range writes() {
		if n, most := after-before[i], 1000+int(took/time.Millisecond); n > most {
			t.Errorf("the relay with %s wrote %d times within %s, want at most %d", rigs[i].Delivery, n, took, most)
		}
	}
}

// says verifies that the relay's last error contains the words.
func says(t *testing.T, exit cdctest.Exit, words ...string) {
	t.Helper()
	said := lastWords(exit.Log)
	t.Logf("exit code %d: %s", exit.Code, said)
	for _, word := range words {
		if !strings.Contains(said, word) {
			t.Errorf("it does not say %q", word)
		}
	}
}

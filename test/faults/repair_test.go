package faults

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// EnvRepairs is how often TestRepair loses the slot or purges the binlog on each database.
const EnvRepairs = "CDC_RELAY_REPAIRS"

func repairs(t *testing.T) int {
	t.Helper()
	text := os.Getenv(EnvRepairs)
	if text == "" {
		return 2
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", EnvRepairs, err)
	}
	return n
}

// keyed starts writers each of which has keys of its own: the table tells the order of their commits.
func keyed(r *cdctest.Rig) {
	for range 3 {
		r.Load(cdctest.Workload{Writers: 1, Keys: 16})
	}
}

// fixed runs the repair that the relay's last error names.
func fixed(t *testing.T, r *cdctest.Rig, exit cdctest.Exit) string {
	t.Helper()
	said := lastWords(exit.Log)
	t.Logf("exit code %d: %s", exit.Code, said)
	return follow(t, r, said, "repair")
}

// The slot is dropped, or the binlog purged, while no relay runs and writers go on. The relay exits with code 5 and names the
// command that publishes what is missing, and some of what was published, also with exactly-once delivery. Then it goes on.
//
//covers:all 12 19 exit events both
func TestRepair(t *testing.T) {
	onEachAlone(t, func(t *testing.T, s source) {
		rigs := besides(t, s.open, cdctest.InRedis, nil)
		for _, r := range rigs {
			keyed(r)
		}
		for round := range repairs(t) {
			for _, r := range rigs {
				r.Start()
				r.AwaitProgress(100)
				if round%2 == 0 {
					r.Must(r.TermRelay().Do(r.Within(time.Minute), r.Random))
				}
				r.Kill()
				r.Delay(500 * time.Millisecond)
			}
			for _, r := range rigs {
				r.Must(r.DB.LoseLog(t.Context())) // on MySQL and MariaDB for all of them
			}
			for _, r := range rigs {
				r.Must(r.Relay.Start(t.Context()))
				fixed(t, r, r.AwaitExit(time.Minute, 5))
			}
		}
		for _, r := range rigs {
			r.Start()
			r.AwaitProgress(100)
		}
		verify(rigs)
	})
}

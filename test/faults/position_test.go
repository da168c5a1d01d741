package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// sigterm ends the relay in order: everything is saved and confirmed.
func sigterm(r *cdctest.Rig) {
	r.Must(r.Relay.Signal(syscall.SIGTERM))
	r.AwaitExit(time.Minute, 0)
}

// deliver changes the kind of delivery for the next start.
func deliver(r *cdctest.Rig, d cdctest.Delivery) {
	r.Reconfigure("delivery", string(d))
	r.Delivery = d
}

// command runs a command, waiting for what a relay that has just been killed may hold for a moment: the checkpoint file's lock, and the
// slot or the lock on the server.
func command(t *testing.T, r *cdctest.Rig, args ...string) string {
	t.Helper()
	var out string
	r.Await("a command to be done: "+strings.Join(args, " "), func(ctx context.Context) (bool, error) {
		var err error
		out, err = r.Relay.Command(ctx, args...)
		return err == nil, unless(strings.Contains(out, "a relay runs"), err)
	})
	t.Logf("%s: %s", strings.Join(args, " "), out)
	return out
}

// fails runs a command that is to fail, and say so.
func fails(t *testing.T, r *cdctest.Rig, words string, args ...string) (said string) {
	t.Helper()
	out, err := r.Relay.Command(r.Within(time.Minute), args...)
	t.Logf("%s: %v: %s", strings.Join(args, " "), err, out)
	if err == nil || !strings.Contains(out+err.Error(), words) {
		t.Fatalf("%s: %v, %s; want %q", strings.Join(args, " "), err, out, words)
	}
	return out + err.Error()
}

// A relay starts, publishes and saves while `position set` is under way, behind its look at the positions: the command changes nothing
// and says so, and nothing is repeated.
//
//covers:all 13 events exactly-once
func TestPositionSetBesideAStart(t *testing.T) {
	for name, source := range sources() {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, source.open(t), cdctest.InRedis, exactlyOnce)
			r.Start()
			r.AwaitSaved(r.Append("k", 10))
			sigterm(r)
			position, _, err := r.Saved(t.Context())
			r.Must(err)
			if name != testenv.MySQLFlavor { // the slot and Kafka, Kafka alone, and on MySQL Redis, too
				r.Reconfigure("checkpoint", nil)
			}
			slow := maps.Clone(map[string]any(r.Config))
			slow["kafka"] = map[string]any{"brokers": shared.kafka.Addrs(testenv.ListenerProxied), "position_topic": r.Topic + "-positions", "request_timeout": "50s"}
			text, err := json.Marshal(slow)
			r.Must(err)
			path := filepath.Join(t.TempDir(), "slow.yaml")
			r.Must(os.WriteFile(path, text, 0o600))
			held := shared.kafka.Brokers()[0].Proxy().HoldBack(t, isRequest(kmsg.InitProducerID))
			done := make(chan string, 1)
			go func() {
				out, err := exec.CommandContext(r.Within(time.Minute), shared.binary, "position", "set", position, "--config", path).CombinedOutput()
				done <- fmt.Sprint(string(out), err)
			}()
			caught(r, held)
			r.Start()
			r.AwaitEvents(r.Append("k", 200))
			r.Must(held.Release(r.Within(time.Minute)))
			said := <-done
			t.Log(said)
			if !strings.Contains(said, "nothing was changed") {
				t.Errorf("the command says %q", said)
			}
			r.AwaitEvents(r.Append("k", 10))
			once(t, r)
		})
	}
}

// From at-least-once to exactly-once delivery and back on MySQL and MariaDB. A relay without source.mysql.id keeps its position, and
// the first setup refuses to store one. The ID is set later: the former checkpoint is adopted. The checkpoint is removed in the same step:
// setup refuses, and its fix loses nothing. The ID is changed: setup refuses.
//
//covers:binlogs 13 28 events both
func TestIDIsSetWithTheDelivery(t *testing.T) {
	t.Parallel()
	onBinlogs(t, func(t *testing.T, db *cdctest.MySQL) {
		r := newRig(t, db, cdctest.InFile, func(o *cdctest.RigOptions) {
			o.Committed = true
			o.Settings = map[string]any{"kafka.position_topic": db.Name() + "-positions", "topics.create": map[string]any{"partitions": 1, "replication_factor": 1}}
		})
		checkpoint := r.Config["checkpoint"]
		command(t, r, "position", "reset")
		r.Reconfigure("source.mysql.id", nil)
		fails(t, r, "source.mysql.id is missing", "setup")
		command(t, r, "position", "set", "current", "--skip-events")
		command(t, r, "setup")
		r.Start()
		r.AwaitSaved(r.Append("k", 10))
		sigterm(r)
		between := r.Append("between", 10)
		deliver(r, cdctest.ExactlyOnce)
		r.Reconfigure("source.mysql.id", db.Name())
		r.Reconfigure("checkpoint", nil)
		said := fails(t, r, "configure its checkpoint again", "setup")
		r.Reconfigure("checkpoint", checkpoint)
		follow(t, r, said, "setup")
		command(t, r, "check")
		r.Start()
		r.AwaitSaved(append(between, r.Append("k", 10)...))
		sigterm(r)
		r.Reconfigure("checkpoint", nil)
		command(t, r, "setup")
		r.Start()
		r.AwaitEvents(r.Append("k", 10))
		once(t, r)
		sigterm(r)
		r.Reconfigure("checkpoint", checkpoint)
		r.Reconfigure("source.mysql.id", db.Name()+"-other")
		fails(t, r, "another source", "setup")
		r.Reconfigure("source.mysql.id", db.Name())
		deliver(r, cdctest.AtLeastOnce)
		r.Start()
		r.AwaitSaved(r.Append("k", 10))
		once(t, r)
	})
}

// The position is set after a change of delivery and before the first start, in both directions: back, the events behind it are
// repeated, and forward, those before it are skipped. Both are exactly what the command says.
//
//covers:all 13 events both
func TestPositionSetAfterAChangeOfDelivery(t *testing.T) {
	t.Parallel()
	for name, source := range sources() {
		for _, from := range deliveries() {
			checkpoint, to := source.least(), cdctest.AtLeastOnce
			if from == cdctest.AtLeastOnce {
				to = cdctest.ExactlyOnce
			}
			t.Run(name+"/"+string(from), func(t *testing.T) {
				t.Parallel()
				db := source.open(t)
				r := newRig(t, db, checkpoint, func(o *cdctest.RigOptions) {
					exactlyOnce(o)
					o.Checkpoint = cdctest.InFile // to know positions
				})
				if checkpoint == cdctest.SlotOnly {
					r.Reconfigure("checkpoint", nil)
				}
				deliver(r, from)
				back, end := positionsAround(t, r, db)
				deliver(r, to)
				r.Delivery = cdctest.AtLeastOnce // a repeat is wanted
				r.FaultUnbounded("position set back")
				command(t, r, "position", "set", back.position, "--skip-events") // from the slot alone, which a kill leaves behind, it is forward
				r.Start()
				r.AwaitEvents(r.Append("k", 10))
				repeats(t, r, back.events)
				sigterm(r)
				deliver(r, from)
				r.Start()
				r.AwaitEvents(r.Append("k", 10))
				sigterm(r)
				deliver(r, to)
				r.Exclude(r.Append("skipped", 10)...)
				command(t, r, "position", "set", end(), "--skip-events")
				r.Start()
				r.AwaitEvents(r.Append("k", 10))
				repeats(t, r, back.events)
			})
		}
	}
}

// stood is a position and how many events were published behind it.
type stood struct {
	position string
	events   int
}

// positionsAround publishes events, ends the relay, and returns a position before some of them, to which it can move back; and a function
// that returns the end of the WAL or binlog.
func positionsAround(t *testing.T, r *cdctest.Rig, db cdctest.Database) (back stood, end func() string) {
	t.Helper()
	const events = 10
	end = func() string {
		m, ok := db.(*cdctest.MySQL)
		if !ok {
			return current(r, db.(*cdctest.Postgres))
		}
		query := "SELECT @@GLOBAL.gtid_executed"
		if m.Server.Flavor == testenv.MariaDBFlavor {
			query = "SELECT @@GLOBAL.gtid_binlog_pos"
		}
		var now string
		r.Must(m.Query(t.Context(), []any{&now}, query))
		return strings.ReplaceAll(now, "\n", "")
	}
	for range 20 {
		r.Start()
		r.AwaitEvents(r.Append("k", events))
		at := end()
		r.AwaitEvents(r.Append("k", events))
		r.Kill()
		p, ok := db.(*cdctest.Postgres)
		if !ok || confirmed(t.Context(), r, p) <= at {
			return stood{at, events}, end
		}
	}
	t.Fatal("the slot is always ahead")
	return stood{}, nil
}

// The relay is killed between the position's record and the commit, and started with another kafka.transactional_id: it fences the one
// before, which the last position names, and does not wait until Kafka aborts the transaction.
//
//covers:all 2 events exactly-once
func TestAnotherTransactionalID(t *testing.T) {
	proxy := shared.kafka.Brokers()[0].Proxy()
	for name, source := range sources() {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, source.open(t), cdctest.InFile, func(o *cdctest.RigOptions) {
				exactlyOnce(o)
				o.Listener, o.Settings = testenv.ListenerProxied, map[string]any{"kafka.request_timeout": min(cdctest.Patience(10*time.Second), 55*time.Second).String()} // it sends no request again
			})
			r.Reconfigure("checkpoint", nil) // it would name the ID too
			r.Start()
			r.AwaitEvents(r.Append("k", 10))
			held := proxy.HoldBack(t, isRequest(kmsg.EndTxn))
			r.Append("k", 10)
			caught(r, held)
			r.Kill()
			proxy.Cut() // the request is lost
			r.Must(proxy.Restore())
			r.Reconfigure("kafka.transactional_id", "cdc-relay.renamed."+r.Topic)
			began := time.Now()
			r.Start()
			if took := time.Since(began); took > 10*time.Second && strings.Contains(r.Relay.Log(), "readable to offset") {
				t.Errorf("the start waited for the transaction, for %s", took)
			}
			r.AwaitEvents(r.Append("k", 10))
			once(t, r)
		})
	}
}

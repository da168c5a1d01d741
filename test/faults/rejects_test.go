package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// poison is an event that cannot be published, and the policy for it.
type poison struct {
	policy string // setting under errors
	exit   int
	spoil  func(*cdctest.Event)
	topic  map[string]string // settings of the topics
	more   map[string]any    // more settings
	says   []string
}

func poisons() map[string]poison {
	return map[string]poison{
		"larger than the topic allows": {
			policy: "too_large", exit: 1, spoil: large, topic: map[string]string{"max.message.bytes": "5000"},
			says: []string{"max.message.bytes", "errors.skip"},
		},
		// With compression only the broker notices it, in the middle of a batch.
		"larger than the broker allows": {
			policy: "too_large", exit: 1, topic: map[string]string{"max.message.bytes": "5000"},
			spoil: func(e *cdctest.Event) { e.Payload = append(cdctest.Payload(e.Key, e.Seq, 20), noise(20_000)...) },
			more:  map[string]any{"kafka.compression": "zstd"}, says: []string{"max.message.bytes", "errors.skip"},
		},
		"topic that does not exist": {
			policy: "unknown_topic", exit: 2, spoil: func(e *cdctest.Event) { e.Topic = "no_such_topic" },
			says: []string{"no_such_topic"},
		},
		"bad topic name": {
			policy: "unroutable", exit: 1, spoil: func(e *cdctest.Event) { e.Topic = "no topic, this" },
			says: []string{"topic"},
		},
		"no route": {
			policy: "unroutable", exit: 1, spoil: func(e *cdctest.Event) { e.AggregateType = "Stray" },
			says: []string{"route"},
		},
		// A compacted topic accepts no record without a key; the response names the record in the batch.
		"rejected by the broker": {
			policy: "rejected", exit: 1, topic: map[string]string{"cleanup.policy": "compact,delete"},
			spoil: func(e *cdctest.Event) { e.Key = "" }, says: []string{"errors.skip"},
		},
	}
}

// noise returns text that does not compress well.
func noise(n int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, "%x", random.Uint64()) // hex compresses to half its size at best
	}
	return b.Bytes()[:n]
}

// onlyOrders routes only events of the aggregate type Order.
func onlyOrders(r *cdctest.Rig) []any {
	return []any{map[string]any{"match": map[string]any{"aggregate_type": "Order"}, "topic": r.Topic}}
}

// spoiled starts a relay and commits events of two keys. One event cannot be published; behind are the later events of its
// key.
func spoiled(t *testing.T, db cdctest.Database, p poison) (r *cdctest.Rig, bad *cdctest.Event, behind []*cdctest.Event) {
	t.Helper()
	r = newRig(t, db, cdctest.InFile, func(o *cdctest.RigOptions) {
		o.TopicSettings, o.Settings = p.topic, map[string]any{"errors." + p.policy: "stop"}
		o.Partitions = 1
		maps.Copy(o.Settings, p.more)
	})
	r.Reconfigure("routes", onlyOrders(r))
	r.Start()
	resume := pauseKafka(t) // so that the bad event shares a batch with others
	r.Append("k", 50)
	r.Append("other", 50)
	awaitInFlight(r, 100)
	middle := r.AppendAs("k", 50, func(e *cdctest.Event) {
		if e.Seq == 75 {
			p.spoil(e)
			bad = e
		}
	})
	r.Append("other", 50)
	behind = slices.Concat(middle[25:], r.Append("k", 50))
	if p.policy != "unroutable" { // otherwise the router stops before it
		awaitInFlight(r, 250)
	}
	r.Exclude(bad)
	resume()
	return r, bad, behind
}

// poisonsOf returns the cases for a source: all on PostgreSQL, and on the others one that the router refuses and one that
// the broker rejects, because neither depends on the source.
func poisonsOf(source string) map[string]poison {
	all := poisons()
	if source == "postgres" {
		return all
	}
	maps.DeleteFunc(all, func(name string, _ poison) bool { return name != "no route" && name != "rejected by the broker" })
	return all
}

// The relay stops before an event that is rejected and names it; no later event of its key is published. It continues without a gap with
// the event's ID in errors.skip, or, on PostgreSQL, with the event as a dead letter, behind which the others follow once it is dropped.
//
//covers:all 24 exit events
func TestStopAtRejectedEvent(t *testing.T) {
	onEachAlone(t, func(t *testing.T, s source) {
		for name, p := range poisonsOf(s.name) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r, bad, behind := spoiled(t, s.open(t), p)
				exit := r.AwaitExit(time.Minute, p.exit)
				says(t, exit, append(p.says, bad.ID.String(), "errors."+p.policy+": dead_letter")...)
				r.Must(r.Reader.CatchUp(r.Within(time.Minute)))
				for _, e := range behind { // order is per topic
					if bad.Topic == "" && r.Reader.Has(e.ID) {
						r.Violation(cdctest.Order, "event %d of key k was published, after the one that stopped the relay", e.Seq)
					}
				}
				r.Fault("stop")
				if s.name == "postgres" {
					becomesDeadLetter(r, p, bad)
				} else {
					r.Reconfigure("errors.skip", skipped(r, exit, bad))
					r.Start()
				}
				r.Append("k", 10)
				r.Verify()
			})
		}
	})
}

// becomesDeadLetter follows the other fix of such a stop, which loses nothing.
func becomesDeadLetter(r *cdctest.Rig, p poison, bad *cdctest.Event) {
	keepLetters(r, nil)
	r.Reconfigure("errors."+p.policy, "dead_letter")
	r.Start()
	// The command fails as long as the letter is not there.
	r.Await("the letter to be dropped", func(ctx context.Context) (bool, error) {
		_, err := r.Relay.Command(ctx, "dlq", "drop", bad.ID.String())
		return err == nil, nil
	})
}

// skipped is what the relay's last error says to skip.
func skipped(r *cdctest.Rig, exit cdctest.Exit, bad *cdctest.Event) (ids []string) {
	_, list, says := strings.Cut(lastWords(exit.Log), "errors.skip: ")
	if !says {
		return []string{bad.ID.String()}
	}
	r.Must(json.NewDecoder(strings.NewReader(list)).Decode(&ids))
	return ids
}

// Events for a missing topic stop the relay; once the topic exists they are published in order.
//
//covers:postgres 25 exit events both
//covers:mysql 25 exit events
//covers:mariadb 25 exit events exactly-once
func TestMissingTopicIsCreated(t *testing.T) {
	inEitherMode(t, func(t *testing.T, s source, delivery func(*cdctest.RigOptions)) {
		db := s.open(t)
		missing := db.Name() + "-late"
		r := newRig(t, db, cdctest.InFile, delivery)
		r.Start()
		for range 3 {
			r.Append("k", 10)
			r.AppendAs("k-late", 10, func(e *cdctest.Event) { e.Topic = missing })
		}
		says(t, r.AwaitExit(time.Minute, 2), missing, "topics.create", "errors.unknown_topic")
		r.FaultUnbounded("stop")
		r.Must(shared.kafka.CreateTopic(r.Within(time.Minute), missing, 2, nil))
		r.Reader.Also(missing)
		r.Start()
		r.Verify()
	})
}

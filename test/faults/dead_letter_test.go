package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// letterRig is a rig whose relay has dead letters, and a route for orders only.
func letterRig(tb testing.TB, s source, delivery func(*cdctest.RigOptions)) *cdctest.Rig {
	tb.Helper()
	return letterRigWith(tb, s, delivery, nil)
}

// letterRigWith is one with settings for the topic of letters.
func letterRigWith(tb testing.TB, s source, change func(*cdctest.RigOptions), topicSettings map[string]string) *cdctest.Rig {
	tb.Helper()
	db := s.open(tb)
	r := newRig(tb, db, cdctest.InFile, func(o *cdctest.RigOptions) {
		o.Settings = map[string]any{}
		change(o)
		o.Settings["errors.unroutable"], o.Settings["errors.too_large"] = "dead_letter", "dead_letter"
	})
	keepLetters(r, topicSettings)
	r.Reconfigure("routes", onlyOrders(r))
	return r
}

// keepLetters creates the topics of dead letters and configures them.
func keepLetters(r *cdctest.Rig, topicSettings map[string]string) {
	topic := r.Topic + "-dead"
	compacted := map[string]string{"cleanup.policy": "compact"}
	maps.Copy(compacted, topicSettings)
	ctx := r.Within(time.Minute)
	r.Must(r.Kafka.CreateTopic(ctx, topic, 8, compacted))
	r.Must(r.Kafka.CreateTopic(ctx, topic+".index", 1, compacted))
	r.Reconfigure("dead_letter.topic", topic)
}

// stray makes an event that no route matches.
func stray(e *cdctest.Event) { e.AggregateType = "Stray" }

// routeStrays adds a route for them, which the next start has.
func routeStrays(r *cdctest.Rig) { r.Reconfigure("routes", []any{map[string]any{"topic": r.Topic}}) }

// counts are those of `dlq list --count`.
func counts(ctx context.Context, r *cdctest.Rig) map[string]int {
	out, err := r.Relay.Command(ctx, "dlq", "list", "--count", "-o", "json")
	r.Must(err)
	all := map[string]int{}
	r.Must(json.Unmarshal([]byte(out), &all))
	return all
}

func awaitCounts(r *cdctest.Rig, want string) {
	got := ""
	r.Await("letters "+want, func(ctx context.Context) (bool, error) {
		got = fmt.Sprint(counts(ctx, r))
		return got == want, nil
	})
}

// wantCounts waits until the letters are those that were there before, and nothing has resolved a letter or brought one back.
func wantCounts(r *cdctest.Rig, want string, kind cdctest.Kind) {
	got := ""
	defer func() { // the end of the wait ends the test, mostly within counts
		if got != "" && got != want {
			r.Violation(kind, "letters %s, want %s as before", got, want)
		}
	}()
	r.Await("letters "+want, func(ctx context.Context) (bool, error) {
		got = fmt.Sprint(counts(ctx, r))
		return got == want, nil
	})
}

// An event without a route becomes a dead letter; the later events of its key follow it, also those after a SIGKILL, and other keys
// pass. Published again, they are in order, before those that come meanwhile.
//
//covers:all 34 events both
func TestDeadLetters(t *testing.T) {
	inBothModes(t, func(t *testing.T, s source, delivery func(*cdctest.RigOptions)) {
		r := letterRig(t, s, delivery)
		r.Reconfigure("errors.unroutable", "stop")
		r.Start()
		r.AwaitEvents(r.Append("k", 10))
		bad := r.AppendAs("k", 1, stray)[0]
		exit := r.AwaitExit(time.Minute, 1)
		says(t, exit, "errors.unroutable: dead_letter")
		r.Reconfigure("errors.unroutable", "dead_letter")
		r.Start()
		r.Append("k", 10)
		r.AwaitEvents(r.Append("other", 10))
		awaitCounts(r, "map[held:10 unroutable:1]")
		r.Kill()
		held := r.Append("k", 5)
		r.Start()
		r.AwaitEvents(r.Append("other", 10))
		awaitCounts(r, "map[held:15 unroutable:1]")
		out, err := r.Relay.Command(r.Within(time.Minute), "dlq", "retry", bad.ID.String())
		if err == nil {
			t.Errorf("published without a route: %s", out)
		}
		wantCounts(r, "map[held:15 unroutable:1]", cdctest.Lost)
		routeStrays(r)
		r.Kill()
		r.Start()
		_, err = r.Relay.Command(r.Within(time.Minute), "dlq", "retry", bad.ID.String())
		r.Must(err)
		r.AwaitEvents(held)
		awaitCounts(r, "map[]")
		r.Append("k", 5)
		r.Verify()
	})
}

// What `dlq drop` names is never published, whatever its age and number, also if the leader is killed before it has dropped all of it. What was
// not named of the same keys is published, in order.
//
//covers:postgres 35 events both
//covers:mysql 35 events
//covers:mariadb 35 events exactly-once
func TestDroppedLettersAreNeverPublished(t *testing.T) {
	inEitherMode(t, func(t *testing.T, s source, delivery func(*cdctest.RigOptions)) {
		r := letterRig(t, s, delivery)
		r.Start()
		records := newLetterLog(t, r)
		asking := &commands{t: t, r: r}
		refused := func(key string, held int) []*cdctest.Event {
			events := letters(r, key, held)
			r.Exclude(events...)
			return events
		}

		young := []string{"drop", "--yes"}
		for _, e := range refused("young", 10) {
			young = append(young, e.ID.String())
		}
		awaitCounts(r, "map[held:10 unroutable:1]")
		asking.start(young...) // at once: their position is not saved yet
		r.Append("young", 10)
		asking.running.Wait()
		awaitCounts(r, "map[]")

		many := refused("many", 2100) // more than the relay publishes again in one round
		awaitCounts(r, "map[held:2100 unroutable:1]")
		asking.start("drop", "--key", "many", "--yes")
		last := many[len(many)-1]
		records.await("a drop", func(k *kgo.Record) bool { return inIndex(`"done":"dropped"`)(r, last, k) })
		r.Kill()
		r.Start()
		r.Append("many", 10)
		asking.running.Wait()
		awaitCounts(r, "map[]")
		r.Verify()
	})
}

// A transaction has more events that cannot be published than there may be dead letters: the relay publishes nothing more, says so, and
// goes on as soon as some are dropped. The retry that it prints loses nothing while their cause is there.
//
//covers:postgres 34 events both
//covers:mysql 34 events
//covers:mariadb 34 events exactly-once
func TestMoreDeadLettersThanAllowed(t *testing.T) {
	inEitherMode(t, func(t *testing.T, s source, delivery func(*cdctest.RigOptions)) {
		r := letterRig(t, s, delivery)
		r.Reconfigure("dead_letter.max_held_events", 300)
		r.Start()
		r.Exclude(r.AppendAs("k", 1000, stray)...)
		other := r.Append("other", 10)
		var said string
		r.Await("the relay to say that there may be no more", func(ctx context.Context) (_ bool, err error) {
			said, err = r.Relay.Command(ctx, "status")
			return strings.Contains(said, "not ready: nothing is published: there may be no more dead letters"), err
		})
		retry, err := cdctest.PrintedCommand(t.Context(), said, "dlq retry")
		r.Must(err)
		r.Await("letters that are committed", func(ctx context.Context) (bool, error) { return len(counts(ctx, r)) > 0, nil })
		if out, err := r.Relay.Command(r.Within(time.Minute), retry...); err == nil || len(counts(t.Context(), r)) == 0 {
			r.Violation(cdctest.Lost, "letters that cannot be published are gone after a retry: %s", out)
		}
		r.Await("the letters to be dropped", func(ctx context.Context) (bool, error) {
			_, _ = r.Relay.Command(ctx, "dlq", "drop", "--all", "--yes") // an error: none is left
			return r.Reader.Has(other[9].ID), nil
		})
		r.AwaitEvents(other)
		r.Verify()
	})
}

package faults

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// allow sets how large a record of a compacted topic may be.
func allow(t *testing.T, topic, size string, refusal error) {
	t.Helper()
	change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &size}}
	responses, err := kadm.NewClient(kafkaClient(t)).AlterTopicConfigs(t.Context(), change, topic)
	if err == nil {
		_, err = responses.On(topic, func(r *kadm.AlterConfigsResponse) error { return r.Err })
	}
	testenv.Must(t, err)
	awaitRefusal(t, topic, refusal)
}

// forbid leaves all rights on a compacted topic but the one to write, until permit is called.
func forbid(t *testing.T, topic string) (permit func()) {
	t.Helper()
	admin := kadm.NewClient(kafkaClient(t))
	rights := kadm.NewACLs().Topics(topic).ResourcePatternType(kadm.ACLPatternLiteral).
		Allow("User:ANONYMOUS").Operations(kadm.OpRead, kadm.OpDescribe, kadm.OpDescribeConfigs)
	results, err := admin.CreateACLs(t.Context(), rights)
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	testenv.Must(t, err)
	awaitRefusal(t, topic, kerr.TopicAuthorizationFailed)
	return func() {
		if _, err := admin.DeleteACLs(t.Context(), rights); err != nil {
			t.Fatal(err)
		}
		awaitRefusal(t, topic, kerr.InvalidRecord)
	}
}

// awaitRefusal waits until the broker refuses a record without a key so: it goes by a change after it has answered it. A compacted
// topic never stores such a record, and looks at its size first.
func awaitRefusal(t *testing.T, topic string, refusal error) {
	t.Helper()
	client := kafkaClient(t)
	ctx, cancel := context.WithTimeout(t.Context(), cdctest.Patience(time.Minute))
	defer cancel()
	err := cdctest.Await(ctx, "the broker to refuse records: "+refusal.Error(), func(ctx context.Context) (bool, error) {
		probe := &kgo.Record{Topic: topic, Value: make([]byte, 1000)}
		return errors.Is(client.ProduceSync(ctx, probe).FirstErr(), refusal), nil
	})
	testenv.Must(t, err)
}

// The topic of dead letters or its index is deleted, or takes no record, or may not be written, or Kafka is away while an event becomes a letter: the relay
// stops, or waits for Kafka, and names the topic and what to do. Then it goes on, and the event becomes a letter after all.
//
//covers:postgres 34 exit events both
//covers:mysql 34 exit events
//covers:mariadb 34 exit events exactly-once
func TestTopicsOfDeadLettersFail(t *testing.T) {
	inEitherMode(t, func(t *testing.T, s source, delivery func(*cdctest.RigOptions)) {
		r := letterRig(t, s, delivery)
		r.Start()
		stops := func(topic, key string, code int, fix string) (*cdctest.Event, string) {
			e := letter(r, key)
			exit := r.AwaitExit(time.Minute, code)
			says(t, exit, topic, fix)
			for _, left := range []string{letterTopic(r), indexTopic(r)} {
				if left != topic {
					nothingOpen(t, r, left)
				}
			}
			r.FaultUnbounded("stop")
			return e, lastWords(exit.Log)
		}
		for _, topic := range []string{letterTopic(r), indexTopic(r)} {
			r.AwaitSaved(r.Append("other", 1))
			deleteTopic(t, topic)
			bad, said := stops(topic, "deleted"+topic, 2, "cdc-relay replay --since TIME")
			follow(t, r, said, "setup")
			r.Start()
			awaitCounts(r, "map[held:3 unroutable:1]")
			_, err := r.Relay.Command(r.Within(time.Minute), "dlq", "drop", bad.ID.String())
			r.Must(err)
			r.Exclude(bad)
			awaitCounts(r, "map[]")
		}
		for _, topic := range []string{letterTopic(r), indexTopic(r)} {
			allow(t, topic, "100", kerr.MessageTooLarge)
			stops(topic, "full"+topic, 1, "max.message.bytes")
			allow(t, topic, "1000000", kerr.InvalidRecord)
			r.Start()
			permit := forbid(t, topic)
			stops(topic, "forbidden"+topic, 2, "WRITE")
			permit()
			r.Start()
		}
		resume := pauseKafka(t)
		letter(r, "paused")
		awaitInFlight(r, 1)
		resume()
		awaitCounts(r, "map[held:15 unroutable:5]")
		routeStrays(r)
		r.Kill()
		r.Start()
		_, err := r.Relay.Command(r.Within(time.Minute), "dlq", "retry", "--all", "--yes")
		r.Must(err)
		awaitCounts(r, "map[]")
		r.Kill()
		r.Reconfigure("routes", onlyOrders(r))
		r.Start()
		began := time.Now().UTC().Format(time.RFC3339)
		letter(r, "lost")
		awaitCounts(r, "map[held:3 unroutable:1]")
		deleteTopic(t, indexTopic(r))
		r.Must(r.Kafka.CreateTopic(r.Within(time.Minute), indexTopic(r), 1, map[string]string{"cleanup.policy": "compact"}))
		exit := r.AwaitExit(time.Minute, 1)
		says(t, exit, indexTopic(r), "made again")
		routeStrays(r)
		follow(t, r, lastWords(exit.Log), "replay", "TIME", began)
		r.Verify()
	})
}

func large(e *cdctest.Event) { e.Payload = cdctest.Payload(e.Key, e.Seq, 20_000) }

// An event is larger than the topic of dead letters allows: the relay stops, and does what it prints. One that cannot be published is passed over
// once errors.skip lists it, and another one becomes a letter once the topic allows as much as is said. One that waits behind dead letters of
// its key, in the same transaction, is published behind them.
//
//covers:postgres 34 exit events both
//covers:mysql 34 exit events
//covers:mariadb 34 exit events exactly-once
func TestEventTooLargeForALetter(t *testing.T) {
	inEitherMode(t, func(t *testing.T, s source, delivery func(*cdctest.RigOptions)) {
		r := letterRigWith(t, s, delivery, map[string]string{"max.message.bytes": "5000"})
		stops := func(key string, n int, change func(*cdctest.Event)) (events []*cdctest.Event, said string) {
			r.Start()
			events = r.AppendAs(key, n, change)
			exit := r.AwaitExit(time.Minute, 1)
			says(t, exit, events[n-1].ID.String(), letterTopic(r), "list the event under errors.skip")
			nothingOpen(t, r, letterTopic(r), indexTopic(r))
			r.FaultUnbounded("stop")
			return events, lastWords(exit.Log)
		}
		strayAndLarge := func(e *cdctest.Event) { stray(e); large(e) }
		bad, _ := stops("bad", 1, strayAndLarge)
		r.Exclude(bad...)
		r.Reconfigure("errors.skip", []any{bad[0].ID.String()})
		_, said := stops("r", 1, strayAndLarge)
		raise := regexp.MustCompile(`set max\.message\.bytes of topic (\S+) to at least (\d+)`).FindStringSubmatch(said)
		allow(t, raise[1], raise[2], kerr.InvalidRecord)
		r.Start()
		awaitCounts(r, "map[unroutable:1]")
		r.Kill()
		allow(t, letterTopic(r), "5000", kerr.InvalidRecord)
		_, said = stops("k", 30, func(e *cdctest.Event) { // more than a batch
			switch e.Seq {
			case 1:
				stray(e)
			case 30:
				large(e)
			default:
				e.Payload = cdctest.Payload(e.Key, e.Seq, 3000)
			}
		})
		if left := counts(t.Context(), r); left["unroutable"] != 2 || left["held"] == 0 {
			t.Errorf("dead letters of batches before that of the event: %v", left)
		}
		r.Append("other", 10)
		routeStrays(r)
		if !strings.Contains(said, "restart the relay with dead_letter.max_held_events: 1") {
			t.Errorf("says %s", said)
		}
		r.Reconfigure("dead_letter.max_held_events", 1)
		r.Must(r.Relay.Start(t.Context())) // it is not ready
		follow(t, r, said, "dlq retry")
		r.AwaitCount(41)
		awaitCounts(r, "map[]")
		r.Verify()
	})
}

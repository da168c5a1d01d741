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
)

// allow sets how large a record of a compacted topic may be.
func allow(t *testing.T, topic, size string, refusal error) {
	t.Helper()
	change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &size}}
	responses, err := kadm.NewClient(kafkaClient(t)).AlterTopicConfigs(t.Context(), change, topic)
	if err == nil {
		_, err = responses.On(topic, func(r *kadm.AlterConfigsResponse) error { return r.Err })
	}
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
}

// The topic of dead letters or its index is deleted, or takes no record, or may not be written, or Kafka is away while an event becomes a letter: the relay
// stops, or waits for Kafka, and names the topic and what to do. Then it goes on, and the event becomes a letter after all.
//
//covers:postgres 34 exit events both
//covers:mysql 34 exit events
//covers:mariadb 34 exit events exactly-once
func TestTopicsOfDeadLettersFail(t *testing.T) {
	t.Parallel()
	inEitherMode(t, func(t *testing.T, s source, delivery func(*cdctest.RigOptions)) {
		t.Helper()
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
			bad, said := stops(topic, "deleted"+topic, 2, "cdc-relay setup")
			follow(t, r, said, "setup")
			r.Start()
			awaitCounts(r, "map[held:3 unroutable:1]")
			_, err := r.Relay.Command(r.Within(time.Minute), "dlq", "drop", bad.ID.String())
			r.Must(err)
			r.Exclude(bad)
			awaitCounts(r, "map[]")
		}
		for _, topic := range []string{letterTopic(r), indexTopic(r)} {
			if topic == indexTopic(r) { // a letter that is too large for its topic waits: TestEventTooLargeForALetter
				allow(t, topic, "100", kerr.MessageTooLarge)
				stops(topic, "full"+topic, 1, "max.message.bytes")
				allow(t, topic, "1000000", kerr.InvalidRecord)
				r.Start()
			}
			permit := forbid(t, topic)
			stops(topic, "forbidden"+topic, 2, "WRITE")
			permit()
			r.Start()
		}
		resume := pauseKafka(t)
		letter(r, "paused")
		awaitInFlight(r, 1)
		resume()
		awaitCounts(r, "map[held:12 unroutable:4]")
		routeStrays(r)
		r.Kill()
		r.Start()
		_, err := r.Relay.Command(r.Within(time.Minute), "dlq", "retry", "--all", "--yes")
		r.Must(err)
		awaitCounts(r, "map[]")
		r.Verify()
	})
}

func large(e *cdctest.Event) { e.Payload = cdctest.Payload(e.Key, e.Seq, 20_000) }

// awaitUnfit waits until the relay accepts no events because of one that is too large for a letter, and returns what it says.
func awaitUnfit(r *cdctest.Rig) (said string) {
	r.Await("the relay to say that an event is too large for a dead letter", func(ctx context.Context) (bool, error) {
		said, _ = r.Relay.Command(ctx, "status") // an error: it has just been started
		return strings.Contains(said, "not ready: nothing is published: event"), nil
	})
	return said
}

// An event is larger than the topic of dead letters allows: it becomes a letter once the topic allows as much as the relay prints. Another one
// waits behind a dead letter of its key. The relay publishes nothing more and leads: the retry that it prints publishes the letter, then the
// event, and what is behind it, also after a SIGKILL.
//
//covers:postgres 34 events both
//covers:mysql 34 events
//covers:mariadb 34 events exactly-once
func TestEventTooLargeForALetter(t *testing.T) {
	t.Parallel()
	inEitherMode(t, func(t *testing.T, s source, delivery func(*cdctest.RigOptions)) {
		t.Helper()
		r := letterRigWith(t, s, delivery, map[string]string{"max.message.bytes": "5000"})
		r.Start()
		r.AppendAs("r", 1, func(e *cdctest.Event) { stray(e); large(e) })
		raise := regexp.MustCompile(`set max\.message\.bytes of topic (\S+) to at least (\d+)`).FindStringSubmatch(awaitUnfit(r))
		allow(t, raise[1], raise[2], kerr.InvalidRecord)
		awaitCounts(r, "map[unroutable:1]")
		allow(t, raise[1], "5000", kerr.InvalidRecord)
		r.Kill()
		r.Start()
		r.AppendAs("k", 1, stray)
		awaitCounts(r, "map[unroutable:2]")
		r.AppendAs("k", 3, large)
		r.Append("other", 10)
		awaitUnfit(r)
		routeStrays(r)
		r.Kill()
		r.Must(r.Relay.Start(t.Context())) // it is not ready
		retry, err := cdctest.PrintedCommand(t.Context(), awaitUnfit(r), "dlq retry")
		r.Must(err)
		_, err = r.Relay.Command(r.Within(time.Minute), retry...)
		r.Must(err)
		r.AwaitCount(15)
		awaitCounts(r, "map[]")
		r.Verify()
	})
}

// An event that cannot be published is larger than the topic of dead letters allows. The relay publishes nothing more, goes on leading, so
// that other letters can be dropped, stops as usual, and publishes what is behind the event once errors.skip lists it, as it says.
//
//covers:postgres 34 events both
//covers:mysql 34 events
//covers:mariadb 34 events exactly-once
func TestLargeEventThatCannotBePublished(t *testing.T) {
	t.Parallel()
	inEitherMode(t, func(t *testing.T, s source, delivery func(*cdctest.RigOptions)) {
		t.Helper()
		r := letterRigWith(t, s, delivery, map[string]string{"max.message.bytes": "5000"})
		r.Start()
		r.Exclude(r.AppendAs("k", 1, stray)...)
		awaitCounts(r, "map[unroutable:1]")
		bad := r.AppendAs("bad", 1, func(e *cdctest.Event) { stray(e); large(e) })
		r.Exclude(bad...)
		r.Append("other", 10)
		said := awaitUnfit(r)
		if !strings.Contains(said, "list the event that causes it under errors.skip, and restart the relay") || !strings.Contains(said, bad[0].ID.String()) {
			t.Errorf("says %s", said)
		}
		_, err := r.Relay.Command(r.Within(time.Minute), "dlq", "drop", "--all", "--yes")
		r.Must(err)
		awaitCounts(r, "map[]")
		r.Reconfigure("errors.skip", []any{bad[0].ID.String()})
		sigterm(r)
		r.Start()
		r.AwaitCount(10)
		r.Verify()
	})
}

package faults

import (
	"context"
	"errors"
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
//covers:all 34 exit events both
//follows:publisher.ownTopicError/dead_letter_topic setup
func TestTopicsOfDeadLettersFail(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, s source, delivery func(*cdctest.RigOptions)) {
		t.Helper()
		r := letterRig(t, s, delivery)
		_, err := r.Relay.Command(r.Within(time.Minute), "setup") // or a letter without a payload is refused before its topic refuses it
		r.Must(err)
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
		_, err = r.Relay.Command(r.Within(time.Minute), "dlq", "retry", "--all", "--yes")
		r.Must(err)
		awaitCounts(r, "map[]")
		r.Verify()
	})
}

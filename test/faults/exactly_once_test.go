package faults

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	lsn "github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

func exactlyOnce(o *cdctest.RigOptions) { o.Delivery = cdctest.ExactlyOnce }

// SIGKILL within a transaction of the database that takes several transactions of Kafka: the next run continues within it.
//
//covers:all 1 17 events exactly-once
func TestExactlyOnceWithinATransaction(t *testing.T) {
	const rows = 100_000
	proxy := shared.kafka.Brokers()[0].Proxy()
	t.Cleanup(func() { proxy.Heal(t.Context()) })
	rigs := rigs(t, func(o *cdctest.RigOptions) { exactlyOnce(o); proxied(o) })
	for _, r := range rigs {
		proxy.Delay(testenv.Responses, 20*time.Millisecond) // so that a transaction ends by its time
		r.Start()
		r.Largest(rows)
		r.Must(r.DB.InsertMany(r.Within(time.Minute), "large", rows, 100))
		for range 3 {
			r.AwaitProgress(1)
			r.Kill()
			r.Start()
		}
		proxy.Heal(t.Context())
		once(t, r)
	}
}

// Delivery changes from one kind to the other and back, at clean stops. Nothing is lost, and nothing is repeated.
//
//covers:all 5 events exactly-once
func TestDeliveryChanges(t *testing.T) {
	onEach(t, func(t *testing.T, s source) {
		r := newRig(t, s.open(t), cdctest.InFile, exactlyOnce)
		r.Start()
		r.Load(cdctest.Workload{})
		for _, to := range []string{"at-least-once", "exactly-once", "at-least-once", "at-least-once", "exactly-once"} {
			r.AwaitProgress(300)
			sigterm(r)
			if !strings.Contains(r.Relay.Log(), "msg=stopped saved=") {
				t.Error("the log does not say what was saved")
			}
			r.Reconfigure("delivery", to)
			r.Delivery = cdctest.Delivery(to) // with at-least-once delivery a stop that gives up may repeat events
			r.Start()
		}
		r.AwaitProgress(300)
		once(t, r)
	})
}

// An event that Kafka refuses stops the relay, and the transaction that it began is aborted. What was committed before it
// is published, once; so is the rest, after it was skipped.
//
//covers:all 24 exit events exactly-once
func TestExactlyOnceStopsAtPoison(t *testing.T) {
	onEach(t, func(t *testing.T, s source) {
		r := newRig(t, s.open(t), cdctest.InFile, func(o *cdctest.RigOptions) {
			exactlyOnce(o)
			o.TopicSettings = map[string]string{"cleanup.policy": "compact,delete"} // no record without a key
		})
		poison := func() *cdctest.Event {
			return r.AppendAs("bad", 1, func(e *cdctest.Event) { e.Key = "" })[0]
		}
		first := poison() // of its transaction
		before := r.Append("before", 2000)
		within := poison()
		after := r.Append("after", 2000)
		r.Must(r.Relay.Start(t.Context()))
		says(t, r.AwaitExit(time.Minute, 1), "errors.skip")
		nothingOpen(t, r)
		r.Exclude(first, within)
		r.Reconfigure("errors.skip", []string{first.ID.String()})
		r.Must(r.Relay.Start(t.Context()))
		says(t, r.AwaitExit(time.Minute, 1), "errors.skip")
		nothingOpen(t, r)
		r.AwaitEvents(before[:1500])
		r.Reconfigure("errors.skip", []string{first.ID.String(), within.ID.String()})
		r.Start()
		r.AwaitEvents(after)
		once(t, r)
	})
}

// nothingOpen verifies that no transaction holds back consumers of committed records.
func nothingOpen(t *testing.T, r *cdctest.Rig, topics ...string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(shared.kafka.Bootstrap()...))
	r.Must(err)
	defer client.Close()
	admin := kadm.NewClient(client)
	topics = append(topics, r.Topic)
	ends, err := admin.ListEndOffsets(t.Context(), topics...)
	r.Must(err)
	stable, err := admin.ListCommittedOffsets(t.Context(), topics...)
	r.Must(err)
	ends.Each(func(end kadm.ListedOffset) {
		if o, _ := stable.Lookup(end.Topic, end.Partition); o.Offset != end.Offset {
			t.Errorf("topic %s, partition %d: a transaction is open from offset %d to %d", end.Topic, end.Partition, o.Offset, end.Offset)
		}
	})
}

// A topic that cannot keep the position, or has that of another database, is refused before anything is published. The relay
// of the other database is not disturbed.
//
//covers:postgres 13 25 28 exit events exactly-once
func TestUnsuitablePositionTopic(t *testing.T) {
	t.Parallel()
	r := newRig(t, newPostgres(t), cdctest.InFile, exactlyOnce)
	own, label := r.Topic+"-positions", ofSource{t, "other"}
	other := newRig(label, newPostgres(label), cdctest.InFile, exactlyOnce)
	other.Start()
	waiting := r.Append("k", 10)
	for _, tt := range []struct {
		topic      string
		partitions int // 0: none is made
		policy     string
		code       int
		says       string
	}{
		{own + "-missing", 0, "", 2, "does not exist"},
		{own + "-wide", 2, "compact", 2, "has 2 partitions"},
		{own + "-deleted", 1, "delete", 2, "cleanup.policy"},
		{other.Topic + "-positions", 0, "", 5, "give each relay a kafka.position_topic"},
	} {
		if tt.partitions > 0 {
			r.Must(shared.kafka.CreateTopic(r.Within(time.Minute), tt.topic, tt.partitions, map[string]string{"cleanup.policy": tt.policy}))
		}
		r.Reconfigure("kafka.position_topic", tt.topic)
		r.Must(r.Relay.Start(t.Context()))
		says(t, r.AwaitExit(time.Minute, tt.code), tt.says)
	}
	if records, _ := r.Reader.Count(); records > 0 {
		t.Errorf("%d records were published", records)
	}
	r.Reconfigure("kafka.position_topic", own)
	r.Start()
	r.AwaitEvents(waiting)
	once(t, r)
	other.AwaitEvents(other.Append("k", 10))
	if strings.Contains(other.Relay.Log(), "starting again") {
		t.Error("the relay whose topic it is was fenced")
	}
}

// The topic of positions is deleted, or somebody else has written to it. The relay stops and names the commands with which
// it continues where it was.
//
//covers:all 25 events exactly-once
func TestPositionTopicIsLost(t *testing.T) {
	onEach(t, func(t *testing.T, s source) {
		r := newRig(t, s.open(t), cdctest.InFile, exactlyOnce)
		r.Start()
		refused := func(why string) {
			t.Helper()
			if shown, err := r.Relay.Command(t.Context(), "position", "show"); err != nil || !strings.Contains(shown, "refused: ") || !strings.Contains(shown, why) {
				t.Errorf("position show does not say that run refuses: %v: %s", err, shown)
			}
		}
		setBack := func(code int, start string) {
			t.Helper()
			position, _, err := r.Saved(t.Context())
			r.Must(err)
			r.Append("while it is lost", 10)
			if !r.Relay.Running() {
				r.Must(r.Relay.Start(t.Context()))
			}
			exit := r.AwaitExit(time.Minute, code)
			says(t, exit)
			said := lastWords(exit.Log)
			refused("position")
			follow(t, r, said, start)
			if code == 2 { // with an empty topic
				refused("find out what consumers have, then accept the checkpoint, or another position, with `cdc-relay position set POSITION --skip-events`")
				if found, err := r.Relay.Command(t.Context(), "check"); err == nil {
					t.Errorf("check passes: %s", found)
				}
			}
			follow(t, r, said, "position set", "POSITION", position) // with --yes: forward from the slot
			r.Start()
			r.AwaitSaved(r.Append("afterwards", 10))
		}
		r.AwaitSaved(r.Append("before", 10))
		deleteTopic(t, r.Topic+"-positions")
		setBack(2, "setup")
		r.Kill()
		overwrite(t, r.Topic+"-positions")
		setBack(5, "position reset")
		sigterm(r)
		secondPartition(r, kadm.NewClient(kafkaClient(t)), r.Topic+"-positions")
		r.Append("while it has two partitions", 10)
		said := refuses(t, r, 2)
		position, _, err := r.Saved(t.Context())
		r.Must(err)
		if shown := follow(t, r, said, "position show"); !strings.Contains(shown, lsn.DisplayPosition(cdc.Position(position))) {
			t.Errorf("position %s is not shown", position)
		}
		if !strings.Contains(said, "set kafka.position_topic to another topic") {
			t.Error("it does not say so")
		}
		r.Reconfigure("kafka.position_topic", r.Topic+"-positions-2")
		follow(t, r, said, "setup")
		follow(t, r, said, "position set", "POSITION", position)
		r.Start()
		r.AwaitSaved(r.Append("afterwards", 10))
		once(t, r)
	})
}

// deleteTopic returns when the broker knows of it, which is after the controller has answered: until then it takes records, and
// they are lost.
func deleteTopic(t *testing.T, topic string) {
	t.Helper()
	admin := kadm.NewClient(kafkaClient(t))
	if _, err := admin.DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), cdctest.Patience(time.Minute))
	defer cancel()
	err := cdctest.Await(ctx, "the broker to have deleted topic "+topic, func(ctx context.Context) (bool, error) {
		topics, err := admin.ListTopics(ctx, topic)
		return !topics.Has(topic), err
	})
	testenv.Must(t, err)
}

// secondPartition adds one, and waits until the broker says so: it hears of it from the controller.
func secondPartition(r *cdctest.Rig, admin *kadm.Client, topic string) {
	r.Await("the broker to have a second partition of topic "+topic, func(ctx context.Context) (bool, error) {
		topics, err := admin.ListTopics(ctx, topic)
		if err != nil || len(topics[topic].Partitions) == 2 {
			return err == nil, err
		}
		_, err = admin.UpdatePartitions(ctx, 2, topic) // refused if the controller has it
		return false, err
	})
}

// overwrite writes a record that is not a position.
func overwrite(t *testing.T, topic string) {
	t.Helper()
	record := &kgo.Record{Topic: topic, Key: []byte("position"), Value: []byte("none")}
	testenv.Must(t, kafkaClient(t).ProduceSync(t.Context(), record).FirstErr())
}

func kafkaClient(t *testing.T) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(shared.kafka.Bootstrap()...))
	testenv.Must(t, err)
	t.Cleanup(c.Close)
	return c
}

package commands

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// route shows the key and the partition of a route.
func TestRouteWithKeyAndPartition(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.config = `source: {postgres: {dsn: "postgres://u@localhost/shop"}}
routes:
- {match: {aggregate_type: Order}, topic: orders, key: {json: payload, path: $.customer}, partition: shard}
- {match: {aggregate_type: Invoice}, topic: invoices, partition: {const: "0"}}
- {topic: others, key: {template: "${tenant_id}/${aggregate_id}"}}
kafka: {brokers: ["localhost:9092"]}
`
	order := func(rest string) string {
		return `route --row {"aggregate_type":"Order","aggregate_id":"o-1","event_type":"OrderPlaced",` + rest
	}
	session(t, s, "route_key.txt",
		"config validate",
		order(`"payload":{"customer":7},"shard":3}`), order(`"payload":{"customer":7},"shard":"3"} -o json`), order(`"payload":{"total":1}}`),
		order(`"payload":{"customer":7},"shard":-1}`), order(`"payload":{"customer":{}}}`),
		`route --row {"aggregate_type":"Invoice","aggregate_id":"","event_type":"Sent"}`,
		`route --row {"aggregate_type":"Ship","aggregate_id":"s-1","event_type":"Sent","tenant_id":"t-1"}`)
}

const placementConfig = `tables: [{name: jobs, columns: {event_id: id, event_type: type, aggregate_id: job, payload: payload, created_at: at}}]
`

// Rows have the key and the partition of their route. A partition that the topic does not have makes a dead letter, which holds the key of
// the route until the topic has it; or it stops the relay, which says where and what to do.
func TestKeyAndPartitionOfRoute(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.sql("CREATE TABLE jobs (id varchar(36) PRIMARY KEY, type varchar(100), job varchar(36), shard int, payload jsonb, at timestamptz DEFAULT CURRENT_TIMESTAMP)")
	s.config = placementConfig + s.config + "errors: {malformed: dead_letter}\n"
	s.replace("  - {topic: "+s.name+"}", "  - {match: {event_type: placed}, topic: "+s.name+", key: {json: payload, path: $.customer}, partition: shard}\n  - {topic: "+s.name+"}")
	s.setup()
	relay := s.start()
	url := relay.leading()
	s.job("p1", "placed", "2", `{"customer": 7}`)
	s.job("p2", "placed", "NULL", `{"customer": "7"}`)
	s.job("paid", "paid", "1", `{"customer": 7}`)
	s.leavesOut(url, 0, 3)
	s.says(0, "goes to topic NAME, partition 2, key 7\n", "event", "p1")
	s.job("beyond", "placed", "3", `{"customer": 7}`)
	s.job("bad", "placed", "-1", `{"customer": 8}`)
	relay.await(`msg="event became a dead letter" table=\S+ event_id=beyond key=7 topic=\S+ reason=malformed error="the topic's last partition is 2"`)
	relay.await(`msg="event became a dead letter" table=\S+ event_id=bad key=8 reason=malformed error=.*routes\[0\].partition \(column shard\) is not the number of a partition`)
	s.job("p3", "placed", "1", `{"customer": 7}`)
	s.job("paid too", "paid", "1", `{"customer": 7}`) // of another key
	s.leavesOut(url, 0, 4)
	s.letters(2, "--key", "7")
	s.says(1, "2 dead letters could not be published, or wait for one that cannot", "dlq", "retry", "--key", "7", "--yes")
	s.grow(s.name, 4)
	s.says(0, "published: 2 dead letters", "dlq", "retry", "--key", "7", "--yes")
	s.job("beyond too", "placed", "3", `{"customer": 8}`)
	s.letters(2, "--key", "8")
	s.says(0, "dropped: 1 dead letter", "dlq", "drop", "bad", "--yes")
	s.letters(0, "--key", "8") // it is released
	const want = 7
	if n := s.records(s.name); n != want {
		t.Errorf("%d records, want %d", n, want)
	}
	got := map[string]string{}
	for _, r := range s.consume(s.name, want) {
		got[header(r, "ce_id")] = fmt.Sprintf("%s in %d", r.Key, r.Partition)
	}
	for id, place := range map[string]string{"p1": "7 in 2", "beyond": "7 in 3", "p3": "7 in 1", "beyond too": "8 in 3"} {
		if got[id] != place {
			t.Errorf("%s is %s, want %s", id, got[id], place)
		}
	}
	if key, _, _ := strings.Cut(got["p2"], " "); key != "7" || got["paid"] != got["paid too"] || !strings.HasPrefix(got["paid"], "j-1 in ") {
		t.Errorf("records: %v", got)
	}
	relay.stops()
	s.placedAgain()
	s.stopsBeyond()
}

// placedAgain replays an event into another topic: with the key of its route, and in the partition of the key.
func (s *site) placedAgain() {
	s.t.Helper()
	other := s.name + ".other"
	testenv.Must(s.t, kafka.CreateTopic(s.t.Context(), other, 1, nil))
	s.says(0, "1 event published", "replay", "--id", "p1", "--topic", other, "--yes")
	if r := s.consume(other, 1)[0]; string(r.Key) != "7" {
		s.t.Errorf("key %q", r.Key)
	}
	s.says(2, "--key looks for partition_key or aggregate_id, and routes[0] has a key of its own. Fix: leave it out, and select by --id", "replay", "--key", "7", "--yes")
}

// stopsBeyond: with the policy stop the relay ends at a partition that the topic does not have. A constant one is found by check.
func (s *site) stopsBeyond() {
	s.t.Helper()
	s.replace("errors: {malformed: dead_letter}\n", "")
	relay := s.start()
	relay.leading()
	s.job("far", "placed", "2147483646", `{"customer": 9}`)
	if code := relay.wait(); code != 1 {
		s.t.Errorf("exit %d", code)
	}
	relay.await(`publish event "far" to topic "` + s.name + `" partition 2147483646: the topic's last partition is 3\. ` +
		`Fix: add partitions to the topic, correct routes\[\]\.partition or what writes the row, or set errors\.malformed: dead_letter`)
	s.replace("partition: shard", `partition: {const: "4"}`)
	s.says(3, "fail  topic NAME: its last partition is 3, and routes[0].partition is 4: an event of that route would be malformed. Fix: add partitions to the topic", "check")
	s.grow(s.name, 5)
	s.says(0, "ok    topic NAME: 5 partitions", "check")
	relay = s.start()
	url := relay.leading()
	s.leavesOut(url, 0, 1)
	for _, r := range s.consume(s.name, 8) {
		if header(r, "ce_id") == "far" && (r.Partition != 4 || string(r.Key) != "9") {
			s.t.Errorf("it is in partition %d with the key %q", r.Partition, r.Key)
		}
	}
}

// letters waits until so many dead letters match a filter.
func (s *site) letters(want int, filter ...string) {
	s.t.Helper()
	eventually(s.t, func() error {
		r := s.run(append([]string{"dlq", "list", "--count"}, filter...)...)
		if all := fmt.Sprintf("all            %d\n", want); r.code != 0 || !strings.Contains(r.stdout, all) {
			return errors.New(r.String())
		}
		return nil
	})
}

// job writes a row; all are of the same job.
func (s *site) job(id, typ, shard, payload string) {
	s.t.Helper()
	s.sql(fmt.Sprintf("INSERT INTO jobs (id, type, job, shard, payload) VALUES ('%s', '%s', 'j-1', %s, '%s')", id, typ, shard, payload))
}

// grow adds partitions to a topic, and waits until the broker, which hears of them from the controller, says so.
func (s *site) grow(topic string, partitions int) {
	s.t.Helper()
	client := s.kafkaClient()
	defer client.Close()
	admin := kadm.NewClient(client)
	grown, err := admin.UpdatePartitions(s.t.Context(), partitions, topic)
	if err = errors.Join(err, grown.Error()); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, func() error {
		topics, err := admin.ListTopics(s.t.Context(), topic)
		if n := len(topics[topic].Partitions); err == nil && n != partitions {
			err = fmt.Errorf("%d partitions, want %d", n, partitions)
		}
		return err
	})
}

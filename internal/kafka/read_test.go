package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// A broker leaves the partition out while the client is over its quota, and tiered storage that is slow answers without records: no record
// is passed over.
func TestAnswerWithoutRecords(t *testing.T) {
	c := newCluster(t, 1, 1)
	producer, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	if err := producer.ProduceSync(t.Context(), &kgo.Record{Topic: "t"}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	asked := 0
	c.ControlKey(kmsg.Fetch.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		res, _ := req.ResponseKind().(*kmsg.FetchResponse)
		if asked++; asked < 3 {
			res.ThrottleMillis = 1
		} else {
			part := kmsg.FetchResponseTopicPartition{HighWatermark: 1, LastStableOffset: 1, PreferredReadReplica: -1, RecordBatches: []byte{}}
			res.Topics = []kmsg.FetchResponseTopic{{Topic: "t", Partitions: []kmsg.FetchResponseTopicPartition{part}}}
		}
		return res, nil, asked < 5
	})
	found := 0
	client := newClient(t, kafka.Options{Brokers: c.ListenAddrs()})
	err = client.Read(t.Context(), "t", 0, kafka.Oldest, kafka.Committed, func(*kafka.Record) error { found++; return nil })
	if err != nil || found != 1 {
		t.Errorf("%d records found, %v", found, err)
	}
}

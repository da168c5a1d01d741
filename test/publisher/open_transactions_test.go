package publisher

import (
	"context"
	"fmt"
	"hash/crc32"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// The transactions of two producers hold back the consumers of a topic: one producer is silent, and what the other has
// sent came after its transaction was aborted. Both are reported, with the commands that end them. The publisher's own
// transaction is not.
func TestOpenTransactions(t *testing.T) {
	k := testenv.Kafka(t, testenv.KafkaOptions{Proxied: true, Settings: map[string]string{
		"transaction.partition.verification.enable": "false", // as before Kafka 3.6: now a broker asks the coordinator about a late request
	}})
	const topic = "held"
	newTopic(t, k, topic, 3, nil)
	newTopic(t, k, "positions", 1, map[string]string{"cleanup.policy": "compact"})
	opts := publisher.Options{
		Kafka: kafka.Options{Brokers: k.Bootstrap()}, PositionTopic: "positions", Watched: []string{topic, "missing"},
		Timing: publisher.Timing{OpenInterval: 20 * time.Millisecond, LongOpen: 200 * time.Millisecond},
	}
	s := unopened(t, opts)
	(&transactional{Publisher: s.Publisher}).start(t, "own")
	if _, err := s.Commit(t.Context(), "position", nil); err != nil { // the claim of a start
		t.Fatal(err)
	}
	begin(t, s)
	silent, hanging := silentProducer(t, k, topic, 0), hangingProducer(t, k, topic, 1)
	want := map[string]string{"0": fmt.Sprintf("%d ongoing", silent), "1": fmt.Sprintf("%d hanging", hanging)}
	eventually(t, soon, "both to be reported", func() bool { return fmt.Sprint(openTransactions(t, s)) == fmt.Sprint(want) })
	if _, err := s.Commit(t.Context(), "position", []byte("1")); err != nil {
		t.Fatalf("the publisher's own transaction: %v", err)
	}
	if n := s.log.count("a transaction holds back consumers"); n != 2 {
		t.Errorf("the log has %d lines about them", n)
	}
	client, err := kafka.NewClient(opts.Kafka)
	if err != nil {
		t.Fatal(err)
	}
	open, err := client.OpenTransactions(t.Context(), []string{topic}, func(tx *kafka.OpenTransaction) bool {
		return tx.Producer.ID == silent || tx.Producer.ID == hanging
	})
	if err != nil || len(open.All) != 2 {
		t.Fatalf("%+v, %v", open, err)
	}
	for i := range open.All {
		problem := open.All[i].Problem("")
		t.Log(cdc.Explain(problem))
		args := regexp.MustCompile("`kafka-transactions.sh ([^`]*)`").FindStringSubmatch(cdc.Fix(problem))
		if out, err := k.Transactions(t.Context(), strings.Fields(args[1])...); err != nil {
			t.Errorf("%s: %v %s", args[0], err, out)
		}
	}
	eventually(t, soon, "both to have ended", func() bool { return len(openTransactions(t, s)) == 0 })
	eventually(t, soon, "a line about each", func() bool { return s.log.count("transaction has ended") == 2 })
	for _, partition := range []int32{0, 1} { // consumers go on
		produce(t, k, topic, partition)
	}
	seen := map[int32]bool{}
	readCommitted(t, k.Bootstrap(), topic, func(r *kgo.Record) bool {
		seen[r.Partition] = true
		return seen[0] && seen[1]
	})
}

// begin leaves a transaction of s open.
func begin(t *testing.T, s *sink) {
	t.Helper()
	s.send(t, numbered("held", 0, 1, 1)...)
	for d := range s.Durable() {
		if d.Err != nil {
			t.Fatal(d.Err)
		}
		if d.Cut {
			return
		}
	}
}

// openTransactions are those of the metric, by partition.
func openTransactions(t *testing.T, s *sink) map[string]string {
	t.Helper()
	families, err := s.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	open := map[string]string{}
	for _, f := range families {
		if f.GetName() != "cdc_relay_kafka_open_transaction_since_timestamp_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			open[labels["partition"]] = labels["producer_id"] + " " + labels["ending"]
		}
	}
	return open
}

// silentProducer writes in a transaction that it does not end, and returns its ID.
func silentProducer(t *testing.T, k *testenv.KafkaCluster, topic string, partition int32) int64 {
	t.Helper()
	cl := newKgo(t, k.Bootstrap(), kgo.TransactionalID("silent"), kgo.TransactionTimeout(10*time.Minute), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	err := cl.BeginTransaction()
	if err == nil {
		err = cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: partition, Value: []byte("silent")}).FirstErr()
	}
	if err != nil {
		t.Fatal(err)
	}
	id, _, err := cl.ProducerID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// hangingProducer aborts a transaction while a request to publish is held back, and returns its ID.
func hangingProducer(t *testing.T, k *testenv.KafkaCluster, topic string, partition int32) int64 {
	t.Helper()
	cl := newKgo(t, k.Addrs(testenv.ListenerProxied), kgo.MaxVersions(kversion.V3_0_0()))
	id := "hanging"
	init := kmsg.NewPtrInitProducerIDRequest()
	init.TransactionalID, init.TransactionTimeoutMillis, init.ProducerID, init.ProducerEpoch = &id, 60_000, -1, -1
	var producer *kmsg.InitProducerIDResponse
	eventually(t, soon, "a producer ID", func() bool {
		var err error
		producer, err = init.RequestWith(t.Context(), cl)
		return err == nil && producer.ErrorCode == 0
	})
	add := kmsg.NewPtrAddPartitionsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch = id, producer.ProducerID, producer.ProducerEpoch
	added := kmsg.NewAddPartitionsToTxnRequestTopic()
	added.Topic, added.Partitions = topic, []int32{partition}
	add.Topics = append(add.Topics, added)
	if res, err := add.RequestWith(t.Context(), cl); err != nil || res.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	held := k.Brokers()[0].Proxy().HoldBack(func(request []byte) bool { return len(request) > 5 && request[4] == 0 && request[5] == 0 })
	published := make(chan error, 1)
	go func() { published <- publishRaw(t.Context(), cl, id, topic, partition, producer) }()
	select {
	case <-held.Caught():
	case err := <-published:
		t.Fatalf("published: %v", err)
	}
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch = id, producer.ProducerID, producer.ProducerEpoch
	if res, err := end.RequestWith(t.Context(), cl); err != nil || res.ErrorCode != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	awaitEnd(t, cl, id)
	if err := held.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-published; err != nil {
		t.Fatal(err)
	}
	return producer.ProducerID
}

// awaitEnd waits until the marker of an aborted transaction is written.
func awaitEnd(t *testing.T, cl *kgo.Client, id string) {
	t.Helper()
	eventually(t, soon, "the end of the transaction", func() bool {
		req := kmsg.NewPtrDescribeTransactionsRequest()
		req.TransactionalIDs = []string{id}
		res, err := req.RequestWith(t.Context(), cl)
		return err == nil && res.TransactionStates[0].State == "CompleteAbort"
	})
}

// publishRaw sends one record in the transaction.
func publishRaw(ctx context.Context, cl *kgo.Client, id, topic string, partition int32, p *kmsg.InitProducerIDResponse) error {
	req := kmsg.NewPtrProduceRequest()
	req.TransactionID, req.Acks, req.TimeoutMillis = &id, -1, 30_000
	tp, part := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	tp.Topic, part.Partition, part.Records = topic, partition, transactionalBatch(p)
	tp.Partitions = append(tp.Partitions, part)
	req.Topics = append(req.Topics, tp)
	res, err := cl.Broker(1).Request(ctx, req)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(res.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
}

// transactionalBatch encodes a batch of one record.
func transactionalBatch(p *kmsg.InitProducerIDResponse) []byte {
	const transactional, beforeLength, beforeChecked = 0x10, 12, 21
	now := time.Now().UnixMilli()
	record := kmsg.Record{Value: []byte("late")}
	record.Length = int32(len(record.AppendTo(nil)) - 1) // without itself
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: transactional, FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: p.ProducerID, ProducerEpoch: p.ProducerEpoch, NumRecords: 1, Records: record.AppendTo(nil),
	}
	b.Length = int32(len(b.AppendTo(nil)) - beforeLength)
	b.CRC = int32(crc32.Checksum(b.AppendTo(nil)[beforeChecked:], crc32.MakeTable(crc32.Castagnoli)))
	return b.AppendTo(nil)
}

func newKgo(t *testing.T, addrs []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(addrs...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func produce(t *testing.T, k *testenv.KafkaCluster, topic string, partition int32) {
	t.Helper()
	cl := newKgo(t, k.Bootstrap(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	record := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(strconv.Itoa(int(partition)))}
	if err := cl.ProduceSync(t.Context(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

package publisher

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// The vectors are those of org.apache.kafka.common.utils.UtilsTest.testMurmur2.
func TestMurmur2(t *testing.T) {
	for key, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string":                       -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", key, got, want)
		}
	}
}

func TestRecord(t *testing.T) {
	data := rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 300))
	rapid.Check(t, func(t *rapid.T) {
		m := cdc.Message{Key: data.Draw(t, "key"), Value: data.Draw(t, "value")}
		r := kmsg.Record{Key: m.Key, Value: m.Value, OffsetDelta: int32(rapid.IntRange(0, maxBatchRecords-1).Draw(t, "place"))}
		for range rapid.IntRange(0, 70).Draw(t, "headers") {
			h := cdc.Header{Key: []byte(rapid.String().Draw(t, "name")), Value: data.Draw(t, "text")}
			m.Headers = append(m.Headers, h)
			r.Headers = append(r.Headers, kmsg.Header{Key: string(h.Key), Value: h.Value})
		}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // its length field says 0, in one byte
		want := r.AppendTo(nil)
		e := queuedMessage{m: &m, body: int32(bodySize(&m))}
		if got := appendRecord(nil, &m, int(e.body), int(r.OffsetDelta)); !bytes.Equal(got, want) {
			t.Errorf("encoded %x, want %x", got, want)
		}
		if e.weight() < len(want) || r.OffsetDelta == 0 && e.size() != len(want) {
			t.Errorf("size %d, weight %d, want %d", e.size(), e.weight(), len(want))
		}
	})
}

// Batches can be read, whatever their codec and their place in a request.
func TestBatch(t *testing.T) {
	for codec := sarama.CompressionNone; codec <= sarama.CompressionZSTD; codec++ {
		id, z := "id", newCompressor(codec)
		r := &request{sentAt: time.UnixMilli(1767323045678), produce: sarama.ProduceRequest{TransactionalID: &id}}
		for i, name := range []string{"a", "a", "b"} {
			b := &batch{p: &partition{topic: &topic{name: name}, id: int32(i)}, n: 2, req: r, producer: kafka.Producer{ID: 7, Epoch: 3}, seq: 5}
			for range b.n {
				m := &cdc.Message{Key: []byte(name), Value: bytes.Repeat([]byte(name+"0123456789"), 8<<10), Headers: []cdc.Header{{Key: []byte("h")}}} // more than a block
				b.msgs, b.bodies = append(b.msgs, m), append(b.bodies, int32(bodySize(m)))
			}
			r.batches = append(r.batches, b)
		}
		_ = r.appendTopics(nil, &z) // its memory is used again
		read := kmsg.NewPtrProduceRequest()
		read.Version = produceVersion
		if err := read.ReadFrom(r.appendTopics([]byte{0, 2, 'i', 'd', 0, 0, 0, 0, 0, 0}, &z)); err != nil || len(read.Topics) != 2 || len(read.Topics[0].Partitions) != 2 {
			t.Fatalf("%s: %v, %d topics", codec, err, len(read.Topics))
		}
		for i, b := range r.batches {
			tp := read.Topics[i/2]
			verifyBatch(t, codec, b, tp.Topic, tp.Partitions[i%2])
		}
	}
}

func verifyBatch(t *testing.T, codec sarama.CompressionCodec, b *batch, topic string, have kmsg.ProduceRequestTopicPartition) {
	t.Helper()
	var head kmsg.RecordBatch
	if err := head.ReadFrom(have.Records); err != nil || head.FirstSequence != b.seq || int(head.LastOffsetDelta) != b.n-1 || int(head.NumRecords) != b.n || head.PartitionLeaderEpoch != -1 {
		t.Errorf("%s: head %+v, %v", codec, head, err)
	}
	fetched, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: topic, Partition: have.Partition},
		&kmsg.FetchResponseTopicPartition{RecordBatches: have.Records}, kgo.DefaultDecompressor(), nil)
	if fetched.Err != nil || len(fetched.Records) != b.n || topic != b.p.topic.name || have.Partition != b.p.id {
		t.Fatalf("%s: %d records of %s/%d, %v", codec, len(fetched.Records), topic, have.Partition, fetched.Err)
	}
	for i, rec := range fetched.Records {
		m := b.msgs[i]
		if !bytes.Equal(rec.Key, m.Key) || !bytes.Equal(rec.Value, m.Value) || len(rec.Headers) != 1 || rec.Offset != int64(i) || !rec.Timestamp.Equal(b.req.sentAt) ||
			rec.ProducerID != b.producer.ID || rec.ProducerEpoch != b.producer.Epoch || !rec.Attrs.IsTransactional() || rec.Attrs.CompressionType() != uint8(codec) {
			t.Errorf("%s: record %d: %.200v", codec, i, rec)
		}
	}
}

func TestSequenceWraps(t *testing.T) {
	for _, c := range []struct {
		seq  int32
		n    int
		want int32
	}{
		{0, 1, 1}, {math.MaxInt32 - 1, 1, math.MaxInt32}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, 5, 3},
	} {
		if got := nextSequence(c.seq, c.n); got != c.want {
			t.Errorf("nextSequence(%d, %d) = %d, want %d", c.seq, c.n, got, c.want)
		}
	}
}

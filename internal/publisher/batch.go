package publisher

import (
	"math"
	"time"

	"github.com/IBM/sarama"
)

// producer is the identity that the brokers know our sequence numbers by.
type producer struct {
	id    int64
	epoch int16
}

// batch is the one record batch that a partition has sent, or is about to send again. While its outcome
// is unknown it is sent again as it is: the brokers recognise it by its sequence number.
type batch struct {
	p     *partition
	n     int // the first n entries of p's queue
	bytes int
	at    time.Time // when it was handed to its broker last
	doubt bool      // an attempt had no answer: it may be in the log
	rb    sarama.RecordBatch

	// The slabs keep their memory from one use to the next.
	records []sarama.Record
	refs    []*sarama.Record // refs[i] = &records[i]
	headers []*sarama.RecordHeader
}

// fill makes the record batch of the first b.n entries of the queue. Records carry the time of publishing:
// the brokers' retention counts from it.
func (b *batch) fill(queue *fifo[entry], codec sarama.CompressionCodec, now time.Time) {
	b.reserve(b.n)
	b.headers = b.headers[:0]
	for i := range b.n {
		m, r := queue.at(i).m, &b.records[i]
		r.Key, r.Value, r.OffsetDelta = m.Key, m.Value, int64(i)
		start := len(b.headers)
		for j := range m.Headers {
			b.headers = append(b.headers, (*sarama.RecordHeader)(&m.Headers[j]))
		}
		r.Headers = b.headers[start:len(b.headers):len(b.headers)]
	}
	b.rb = sarama.RecordBatch{
		Version: 2, Codec: codec, CompressionLevel: sarama.CompressionLevelDefault,
		PartitionLeaderEpoch: -1, LastOffsetDelta: int32(b.n) - 1,
		FirstTimestamp: now, MaxTimestamp: now, Records: b.refs[:b.n],
	}
}

// in reports whether res says that the batch is in the log.
func (b *batch) in(res *sarama.ProduceResponse) bool {
	if res == nil {
		return false
	}
	block := res.GetBlock(b.p.topic.name, b.p.id)
	return block != nil && judge(block.Err) == accepted
}

// stamp sets the identity and the sequence number; the encoded records stay as they are.
func (b *batch) stamp(id producer, seq int32) {
	b.rb.ProducerID, b.rb.ProducerEpoch, b.rb.FirstSequence = id.id, id.epoch, seq
}

func (b *batch) reserve(n int) {
	if n <= len(b.records) {
		return
	}
	n = max(n, min(2*len(b.records), maxBatchRecords))
	b.records, b.refs = make([]sarama.Record, n), make([]*sarama.Record, n)
	for i := range b.records {
		b.refs[i] = &b.records[i]
	}
}

// forget lets go of the messages, so that an idle slab holds no arena.
func (b *batch) forget() {
	for i := range b.n {
		r := &b.records[i]
		r.Key, r.Value, r.Headers = nil, nil, nil
	}
	clear(b.headers)
	b.p, b.rb, b.doubt = nil, sarama.RecordBatch{}, false
}

// slabs keeps batches for reuse, by the loop alone. There are as many as were in use at once.
type slabs struct{ idle []*batch }

func (s *slabs) get() *batch {
	n := len(s.idle)
	if n == 0 {
		return &batch{}
	}
	b := s.idle[n-1]
	s.idle = s.idle[:n-1]
	return b
}

func (s *slabs) put(b *batch) {
	b.forget()
	s.idle = append(s.idle, b)
}

// advance returns the sequence number that follows n records from seq: after 2³¹−1 comes 0
// (org.apache.kafka.common.record.DefaultRecordBatch.incrementSequence).
func advance(seq int32, n int) int32 {
	return int32((int64(seq) + int64(n)) % (math.MaxInt32 + 1))
}

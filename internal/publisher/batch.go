package publisher

import (
	"math"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// batch is the one record batch that a partition has sent, or is about to send again. While its outcome
// is unknown it is sent again as it is: the brokers recognise it by its sequence number.
//
// The loop cuts it, the sender encodes it when it sends it first; in between it changes hands with its
// request.
type batch struct {
	p     *partition
	n     int      // the first n entries of p's queue
	bytes int      // their weight
	req   *request // that took it along last
	doubt bool     // an attempt had no answer: it may be in the log
	coded bool
	rb    sarama.RecordBatch

	msgs   []*cdc.Message
	bodies []int32 // sizes of their records' bodies
	slab   slab
}

// cut makes the batch of the first n entries of p's queue.
func (b *batch) cut(p *partition, n, bytes int, codec sarama.CompressionCodec) {
	b.p, b.n, b.bytes = p, n, bytes
	for i := range n {
		e := p.queue.at(i)
		b.msgs = append(b.msgs, e.m)
		b.bodies = append(b.bodies, e.body)
	}
	b.rb = sarama.RecordBatch{
		Version: 2, Codec: codec, CompressionLevel: sarama.CompressionLevelDefault,
		PartitionLeaderEpoch: -1, LastOffsetDelta: int32(n) - 1,
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

// forget lets go of the messages, so that an idle batch holds no arena.
func (b *batch) forget() {
	clear(b.msgs)
	b.slab.forget(b.n)
	*b = batch{msgs: b.msgs[:0], bodies: b.bodies[:0], slab: b.slab}
}

// slabs keeps batches for reuse, by the loop alone.
type slabs struct {
	idle []*batch
	kept int // octets
}

// keepSlabs bounds what idle batches hold.
const keepSlabs = 4 << 20

func (s *slabs) get() *batch {
	n := len(s.idle)
	if n == 0 {
		return &batch{}
	}
	b := s.idle[n-1]
	s.idle = s.idle[:n-1]
	s.kept -= b.slab.size()
	return b
}

func (s *slabs) put(b *batch) {
	b.forget()
	if size := b.slab.size(); s.kept+size <= keepSlabs {
		s.kept += size
		s.idle = append(s.idle, b)
	}
}

// advance returns the sequence number that follows n records from seq: after 2³¹−1 comes 0
// (org.apache.kafka.common.record.DefaultRecordBatch.incrementSequence).
func advance(seq int32, n int) int32 {
	return int32((int64(seq) + int64(n)) % (math.MaxInt32 + 1))
}

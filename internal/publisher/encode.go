package publisher

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Without compression a request is encoded here, straight from the messages into memory that its connection uses again.
// sarama encodes each record twice, to measure and to write, into memory that is garbage afterwards: more than half of
// the cost of publishing. With compression it encodes all of it, because its compressors cannot be used alone.

func (r *request) compressed() bool { return r.batches[0].rb.Codec != sarama.CompressionNone }

// appendTopics appends the array of topics as versions 3 to 8 of a produce request have it.
func (r *request) appendTopics(dst []byte) []byte {
	dst = slices.Grow(dst, r.bytes)
	start, topics, partitions := len(dst), uint32(0), uint32(0)
	dst = append(dst, 0, 0, 0, 0)
	var name string
	var count int // where the number of the topic's partitions is
	for _, b := range r.batches {
		if b.p.topic.name != name {
			name = b.p.topic.name
			topics, partitions = topics+1, 0
			dst = append(binary.BigEndian.AppendUint16(dst, uint16(len(name))), name...)
			count = len(dst)
			dst = append(dst, 0, 0, 0, 0)
		}
		partitions++
		binary.BigEndian.PutUint32(dst[count:], partitions)
		dst = b.appendTo(dst)
	}
	binary.BigEndian.PutUint32(dst[start:], topics)
	return dst
}

// wireBytes is what b adds to a request at most, without compression: a topic's name may stand before several batches.
func (b *batch) wireBytes() int { return b.bytes + batchOverhead + 14 + len(b.p.topic.name) }

// appendTo appends the partition, the size of the batch, and the batch in the layout of
// org.apache.kafka.common.record.DefaultRecordBatch.
func (b *batch) appendTo(dst []byte) []byte {
	rb := &b.rb
	b.stampTime()
	be := binary.BigEndian
	dst = be.AppendUint32(dst, uint32(b.p.id))
	size := len(dst)
	dst = append(dst, make([]byte, 4+8+4)...) // the size, the base offset, the length
	dst = be.AppendUint32(dst, uint32(rb.PartitionLeaderEpoch))
	dst = append(dst, byte(rb.Version), 0, 0, 0, 0)
	checked := len(dst)
	attributes := uint16(0)
	if rb.IsTransactional {
		attributes = 0x10
	}
	dst = be.AppendUint16(dst, attributes)
	dst = be.AppendUint32(dst, uint32(rb.LastOffsetDelta))
	dst = be.AppendUint64(dst, uint64(rb.FirstTimestamp.UnixMilli()))
	dst = be.AppendUint64(dst, uint64(rb.MaxTimestamp.UnixMilli()))
	dst = be.AppendUint64(dst, uint64(rb.ProducerID))
	dst = be.AppendUint16(dst, uint16(rb.ProducerEpoch))
	dst = be.AppendUint32(dst, uint32(rb.FirstSequence))
	dst = be.AppendUint32(dst, uint32(b.n))
	for i, m := range b.msgs {
		dst = appendRecord(dst, m, int(b.bodies[i]), i)
	}
	be.PutUint32(dst[size:], uint32(len(dst)-size-4))
	be.PutUint32(dst[size+12:], uint32(len(dst)-size-16))
	be.PutUint32(dst[checked-4:], crc32.Checksum(dst[checked:], crc32.MakeTable(crc32.Castagnoli)))
	return dst
}

// addBatches adds the batches for sarama, which keeps what it has encoded for further attempts.
func (r *request) addBatches() {
	for _, b := range r.batches {
		b.stampTime()
		if b.rb.Records == nil {
			b.addRecords()
		}
		r.produce.AddBatch(b.p.topic.name, b.p.id, &b.rb)
	}
}

// stampTime sets the time of this attempt: retention counts from it, and topics may reject an old one
// (message.timestamp.before.max.ms). A repeated batch is still recognized: brokers compare sequence numbers only.
func (b *batch) stampTime() { b.rb.FirstTimestamp, b.rb.MaxTimestamp = b.req.sentAt, b.req.sentAt }

// recordBuffer is the memory for sarama's records. It is reused.
type recordBuffer struct {
	records []sarama.Record
	refs    []*sarama.Record // refs[i] = &records[i]
	headers []*sarama.RecordHeader
}

// addRecords makes sarama's records. A cdc.Header has the layout of sarama's, so headers are not copied.
func (b *batch) addRecords() {
	s := &b.buf
	s.reserve(b.n)
	s.headers = s.headers[:0]
	for i, m := range b.msgs {
		r := &s.records[i]
		r.Key, r.Value, r.OffsetDelta = m.Key, m.Value, int64(i)
		start := len(s.headers)
		for j := range m.Headers {
			s.headers = append(s.headers, (*sarama.RecordHeader)(&m.Headers[j]))
		}
		r.Headers = s.headers[start:len(s.headers):len(s.headers)]
	}
	b.rb.Records = s.refs[:b.n]
}

func (s *recordBuffer) reserve(n int) {
	if n <= len(s.records) {
		return
	}
	n = max(n, min(2*len(s.records), maxBatchRecords))
	s.records, s.refs = make([]sarama.Record, n), make([]*sarama.Record, n)
	for i := range s.records {
		s.refs[i] = &s.records[i]
	}
}

func (s *recordBuffer) reset(n int) {
	for i := range min(n, len(s.records)) {
		r := &s.records[i]
		r.Key, r.Value, r.Headers = nil, nil, nil
	}
	clear(s.headers)
}

func (s *recordBuffer) size() int {
	return len(s.records)*int(unsafe.Sizeof(sarama.Record{})) + 8*(len(s.refs)+cap(s.headers))
}

// appendRecord appends m as record i of its batch, in the layout of org.apache.kafka.common.record.DefaultRecord,
// without attributes and with the batch's timestamp. body is its bodySize.
func appendRecord(dst []byte, m *cdc.Message, body, i int) []byte {
	dst = binary.AppendVarint(dst, int64(body+varintSize(i)-1))
	dst = append(dst, 0, 0)
	dst = binary.AppendVarint(dst, int64(i))
	dst = appendBytes(dst, m.Key)
	dst = appendBytes(dst, m.Value)
	dst = binary.AppendVarint(dst, int64(len(m.Headers)))
	for j := range m.Headers {
		h := &m.Headers[j]
		dst = appendBytes(dst, h.Key)
		dst = appendBytes(dst, h.Value)
	}
	return dst
}

// appendBytes appends the length as a varint, -1 for nil, and the bytes.
func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 1)
	}
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}

const (
	// batchOverhead is the size of a record batch without its records
	// (org.apache.kafka.common.record.DefaultRecordBatch.RECORD_BATCH_OVERHEAD).
	batchOverhead = 61
	// maxBatchRecords keeps offset deltas within two bytes, see recordGrowth.
	maxBatchRecords = 8192
	// recordGrowth is how much larger a record can be when it is not the first of its batch: one more byte of offset
	// delta, and one more byte of length.
	recordGrowth = 2
)

// bodySize returns the size of a message as the first record of a batch, without its length field.
func bodySize(m *cdc.Message) int {
	const attributesAndDeltas = 3
	n := attributesAndDeltas + bytesSize(m.Key) + bytesSize(m.Value) + varintSize(len(m.Headers))
	for i := range m.Headers {
		h := &m.Headers[i]
		n += bytesSize(h.Key) + bytesSize(h.Value)
	}
	return n
}

// bytesSize is the size of a length as a varint, and of the bytes; the length of nil is -1, which takes one byte.
func bytesSize(b []byte) int { return varintSize(len(b)) + len(b) }

// varintSize is the size of n, which is not negative, in zigzag encoding.
func varintSize(n int) int { return (bits.Len64(uint64(n)<<1|1) + 6) / 7 }

package publisher

import (
	"encoding/binary"
	"math/bits"
	"reflect"
	"slices"
	"unsafe"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// recordBuffer is the memory for a batch's encoded records. It is reused.
type recordBuffer struct {
	data    []byte
	records []sarama.Record
	refs    []*sarama.Record // refs[i] = &records[i]
	headers []*sarama.RecordHeader
}

// encode encodes the records, once, before the first attempt.
//
// sarama encodes each record twice, to measure and to write, into memory of its own that is garbage afterwards: more
// than half of the cost of publishing. But it keeps the encoded records for further attempts, and uses them if they are
// there. So without compression they are written there, at a quarter of the cost. With compression, and if a later
// sarama lacks the field, it encodes the records itself.
func (b *batch) encode() {
	// The time of this attempt: retention counts from it, and topics may reject an old one
	// (message.timestamp.before.max.ms). A repeated batch is still recognized: brokers compare sequence numbers only.
	b.rb.FirstTimestamp, b.rb.MaxTimestamp = b.req.sentAt, b.req.sentAt
	if b.encoded {
		return
	}
	b.encoded = true
	if field := encodedRecords(&b.rb); field != nil && b.rb.Codec == sarama.CompressionNone {
		b.encodeOurs(field)
	} else {
		b.encodeTheirs()
	}
}

func (b *batch) encodeOurs(field *[]byte) {
	s := &b.buf
	s.data = slices.Grow(s.data[:0], b.bytes)
	for i, m := range b.msgs {
		s.data = appendRecord(s.data, m, int(b.bodies[i]), i)
	}
	if len(s.refs) < b.n {
		s.refs = make([]*sarama.Record, b.n) // only counted
	}
	b.rb.Records = s.refs[:b.n]
	*field = s.data
}

// encodedRecords is the field of a sarama.RecordBatch for encoded records; nil if there is none with that name and
// type.
func encodedRecords(rb *sarama.RecordBatch) *[]byte {
	f, found := reflect.TypeFor[sarama.RecordBatch]().FieldByName("compressedRecords")
	if !found || f.Type != reflect.TypeFor[[]byte]() {
		return nil
	}
	return (*[]byte)(unsafe.Add(unsafe.Pointer(rb), f.Offset)) //nolint:gosec // within rb, and of the field's type
}

// encodeTheirs fills sarama's records. A cdc.Header has the layout of sarama's, so headers are not copied.
func (b *batch) encodeTheirs() {
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
	return cap(s.data) + len(s.records)*int(unsafe.Sizeof(sarama.Record{})) + 8*(len(s.refs)+cap(s.headers))
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

package publisher

import (
	"encoding/binary"
	"reflect"
	"slices"
	"unsafe"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// slab is the memory that a batch's records are encoded in. It is kept from one use to the next.
type slab struct {
	octets  []byte
	records []sarama.Record
	refs    []*sarama.Record // refs[i] = &records[i]
	headers []*sarama.RecordHeader
}

// encode makes the records ready to be sent, once.
//
// sarama encodes each record twice, to measure and to write, into memory of its own that is garbage
// afterwards: more than half of what publishing costs. It keeps the encoded records for further attempts,
// though, and takes them as they are if they are there. So without compression they are put there, for a
// quarter of the cost. With compression, and should the field be gone, sarama gets its own records.
func (b *batch) encode() {
	// The time of this attempt: retention counts from it, and topics may refuse one that is too long ago
	// (message.timestamp.before.max.ms). A batch that is repeated is still recognised: brokers compare sequence
	// numbers alone.
	b.rb.FirstTimestamp, b.rb.MaxTimestamp = b.req.at, b.req.at
	if b.coded {
		return
	}
	b.coded = true
	if encoded := encodedRecords(&b.rb); encoded != nil && b.rb.Codec == sarama.CompressionNone {
		b.encodeOurs(encoded)
	} else {
		b.encodeTheirs()
	}
}

func (b *batch) encodeOurs(encoded *[]byte) {
	s := &b.slab
	s.octets = slices.Grow(s.octets[:0], b.bytes)
	for i, m := range b.msgs {
		s.octets = appendRecord(s.octets, m, int(b.bodies[i]), i)
	}
	if len(s.refs) < b.n {
		s.refs = make([]*sarama.Record, b.n) // only counted
	}
	b.rb.Records = s.refs[:b.n]
	*encoded = s.octets
}

// encodedRecords is the field of a sarama.RecordBatch that keeps encoded records; nil where there is none of that
// name and type.
func encodedRecords(rb *sarama.RecordBatch) *[]byte {
	f, found := reflect.TypeFor[sarama.RecordBatch]().FieldByName("compressedRecords")
	if !found || f.Type != reflect.TypeFor[[]byte]() {
		return nil
	}
	return (*[]byte)(unsafe.Add(unsafe.Pointer(rb), f.Offset)) //nolint:gosec // within rb, and of the field's type
}

// encodeTheirs fills sarama's records. A cdc.Header has the layout of sarama's, so headers are not copied.
func (b *batch) encodeTheirs() {
	s := &b.slab
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

func (s *slab) reserve(n int) {
	if n <= len(s.records) {
		return
	}
	n = max(n, min(2*len(s.records), maxBatchRecords))
	s.records, s.refs = make([]sarama.Record, n), make([]*sarama.Record, n)
	for i := range s.records {
		s.refs[i] = &s.records[i]
	}
}

func (s *slab) forget(n int) {
	for i := range min(n, len(s.records)) {
		r := &s.records[i]
		r.Key, r.Value, r.Headers = nil, nil, nil
	}
	clear(s.headers)
}

func (s *slab) size() int {
	return cap(s.octets) + len(s.records)*int(unsafe.Sizeof(sarama.Record{})) + 8*(len(s.refs)+cap(s.headers))
}

// appendRecord appends m as the record at place i of its batch, in the layout of
// org.apache.kafka.common.record.DefaultRecord: without attributes, at the batch's own time. body is its
// bodySize.
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

// appendBytes appends the length as a varint, -1 for nil, and the octets.
func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 1)
	}
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}

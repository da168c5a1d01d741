package publisher

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math/bits"
	"slices"

	"github.com/IBM/sarama"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy/xerial"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// A request is encoded here, straight from the messages into memory that its connection uses again. sarama encodes each record twice, to
// measure and to write, into memory that is garbage afterwards: more than half of the cost of publishing without compression.

// appendTopics appends the array of topics as versions 3 to 8 of a produce request have it.
func (r *request) appendTopics(dst []byte, z *compressor) []byte {
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
		dst = b.appendTo(dst, z)
	}
	binary.BigEndian.PutUint32(dst[start:], topics)
	return dst
}

// wireBytes is what b adds to a request at most, without compression: a topic's name may stand before several batches.
func (b *batch) wireBytes() int { return b.bytes + batchOverhead + 14 + len(b.p.topic.name) }

// appendTo appends the partition, the size of the batch, and the batch in the layout of
// org.apache.kafka.common.record.DefaultRecordBatch. Its time is that of this attempt: retention counts from it, and topics may reject an
// old one (message.timestamp.before.max.ms). A repeated batch is still recognized: brokers compare sequence numbers only.
func (b *batch) appendTo(dst []byte, z *compressor) []byte {
	const magic = 2
	be := binary.BigEndian
	dst = be.AppendUint32(dst, uint32(b.p.id))
	size := len(dst)
	dst = append(dst, make([]byte, 4+8+4)...)                    // the size, the base offset, the length
	dst = append(dst, 0xff, 0xff, 0xff, 0xff, magic, 0, 0, 0, 0) // no epoch of the leader, the magic byte, the checksum
	checked := len(dst)
	attributes := uint16(z.codec)
	if b.req.produce.TransactionalID != nil {
		attributes |= 0x10
	}
	sent := uint64(b.req.sentAt.UnixMilli())
	dst = be.AppendUint16(dst, attributes)
	dst = be.AppendUint32(dst, uint32(b.n-1))
	dst = be.AppendUint64(dst, sent)
	dst = be.AppendUint64(dst, sent)
	dst = be.AppendUint64(dst, uint64(b.producer.ID))
	dst = be.AppendUint16(dst, uint16(b.producer.Epoch))
	dst = be.AppendUint32(dst, uint32(b.seq))
	dst = be.AppendUint32(dst, uint32(b.n))
	if z.codec == sarama.CompressionNone {
		dst = b.appendRecords(dst)
	} else {
		z.records = b.appendRecords(z.records[:0])
		dst = z.compress(dst, z.records)
	}
	be.PutUint32(dst[size:], uint32(len(dst)-size-4))
	be.PutUint32(dst[size+12:], uint32(len(dst)-size-16))
	be.PutUint32(dst[checked-4:], crc32.Checksum(dst[checked:], crc32.MakeTable(crc32.Castagnoli)))
	return dst
}

func (b *batch) appendRecords(dst []byte) []byte {
	for i, m := range b.msgs {
		dst = appendRecord(dst, m, int(b.bodies[i]), i)
	}
	return dst
}

// compressor compresses the batches of a connection.
type compressor struct {
	codec sarama.CompressionCodec
	// compress appends src, compressed, to dst.
	compress func(dst, src []byte) []byte
	records  []byte // of the batch that is encoded
}

func newCompressor(codec sarama.CompressionCodec) compressor {
	z := compressor{codec: codec}
	var w interface {
		io.WriteCloser
		Reset(to io.Writer)
	}
	switch codec {
	case sarama.CompressionNone:
		return z
	case sarama.CompressionSnappy:
		z.compress = func(dst, src []byte) []byte { return append(dst, xerial.Encode(dst[len(dst):], src)...) }
		return z
	case sarama.CompressionZSTD:
		// A larger window takes 16 MiB a connection.
		e, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20)) // cannot fail: the options are right
		z.compress = func(dst, src []byte) []byte { return e.EncodeAll(src, dst) }
		return z
	case sarama.CompressionGZIP:
		w = gzip.NewWriter(nil)
	case sarama.CompressionLZ4:
		writer := lz4.NewWriter(nil)
		_ = writer.Apply(lz4.BlockSizeOption(lz4.Block64Kb)) // as above
		w = writer
	}
	z.compress = func(dst, src []byte) []byte {
		to := bytes.NewBuffer(dst)
		w.Reset(to)
		_, _ = w.Write(src) // a buffer takes everything
		_ = w.Close()
		return to.Bytes()
	}
	return z
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

package publisher

import (
	"math/bits"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

const (
	// batchOverhead is what a record batch takes beside its records
	// (org.apache.kafka.common.record.DefaultRecordBatch.RECORD_BATCH_OVERHEAD).
	batchOverhead = 61
	// maxBatchRecords keeps offset deltas within two octets, see recordGrowth.
	maxBatchRecords = 8192
	// recordGrowth is what a record can be larger by than bodySize and its length say when it is not the first of its
	// batch: one octet more of offset delta, and one more of its length for that.
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

// bytesSize is a length as a varint, and the octets; nil has the length -1, which takes one.
func bytesSize(b []byte) int { return varintSize(len(b)) + len(b) }

// varintSize is the octets of n, which is not negative, in zigzag encoding.
func varintSize(n int) int { return (bits.Len64(uint64(n)<<1|1) + 6) / 7 }

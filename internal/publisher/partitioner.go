package publisher

import "encoding/binary"

// partitionOf returns the partition of a key as Java producers choose it:
// org.apache.kafka.common.utils.Utils.toPositive(Utils.murmur2(key)) % count.
func partitionOf(key []byte, count int) int {
	return int(murmur2(key)&0x7fffffff) % count
}

// murmur2 is org.apache.kafka.common.utils.Utils.murmur2: the 32-bit hash with Kafka's seed.
func murmur2(b []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := seed ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := binary.LittleEndian.Uint32(b) * m
		k ^= k >> r
		h = h*m ^ k*m
	}
	switch len(b) {
	case 3:
		h ^= uint32(b[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(b[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(b[0])) * m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

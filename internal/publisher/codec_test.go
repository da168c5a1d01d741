package publisher

import (
	"bytes"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
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

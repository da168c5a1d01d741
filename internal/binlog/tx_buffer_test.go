package binlog

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// Whatever goes into the file on the way, each gives back what was added and not taken back.
func TestHeld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := txBuffer{limit: rapid.IntRange(1, 200).Draw(t, "limit")}
		defer h.reset()
		var want [][]byte
		marks := []int64{0}
		counts := []int{0}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				i := rapid.IntRange(0, len(marks)-1).Draw(t, "mark")
				h.rewind(marks[i])
				want, marks, counts = want[:counts[i]], marks[:i+1], counts[:i+1]
			case 1:
				h.reset()
				want, marks, counts = nil, []int64{0}, []int{0}
			default:
				raw := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "event")
				testenv.Must(t, h.add(raw))
				want = append(slices.Clip(want), bytes.Clone(raw))
			}
			marks, counts = append(marks, h.size()), append(counts, len(want))
		}
		var got [][]byte
		testenv.Must(t, h.each(func(raw []byte) error { got = append(got, bytes.Clone(raw)); return nil }))
		if len(got) != len(want) {
			t.Fatalf("%d events, want %d", len(got), len(want))
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("event %d is %q, want %q", i, got[i], want[i])
			}
		}
	})
}

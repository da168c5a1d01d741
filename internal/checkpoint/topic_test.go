package checkpoint_test

import (
	"context"
	"slices"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
)

// topic is a partition whose leader was elected after the first known records, and knows what it has appended itself, and
// everything before it.
type topic struct {
	records [][2]string
	known   int
}

func (l *topic) Commit(_ context.Context, key string, value []byte) (int64, error) {
	l.records = append(l.records, [2]string{key, string(value)})
	l.known = len(l.records)
	return int64(len(l.records) - 1), nil
}

func (l *topic) Abort(context.Context, string) error { return nil }

func (l *topic) LastPosition(_ context.Context, key string, end int64) ([]byte, bool, error) {
	if end < 0 {
		end = int64(l.known)
	}
	for _, r := range slices.Backward(l.records[:end]) {
		if r[0] == key {
			return []byte(r[1]), true, nil
		}
	}
	return nil, false, nil
}

// A leader that does not know yet what is committed is not asked before it has committed a barrier, and the barrier is not
// taken for a position.
func TestLastPositionBeforeABarrier(t *testing.T) {
	log := &topic{}
	kept := checkpoint.NewTopic(log)
	for _, p := range []cdc.Position{"a", "b"} {
		must(t, kept.Commit(t.Context(), cdc.Checkpoint{Generation: 1, Progress: cdc.Progress{Position: p}}))
	}
	for range 2 {
		log.known = 1 // "a" alone
		if last, found, err := kept.Last(t.Context()); err != nil || !found || last.Progress.Position != "b" {
			t.Errorf("%q, %v, %v", last.Progress.Position, found, err)
		}
	}
}

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// topic is the topic of positions. Its Commit number failing has no answer; lost says whether it is done all the same. Its leader knows the
// first known records to be committed: what it has appended itself, and everything before it.
type topic struct {
	records          [][2]string
	known            int
	commits, failing int
	lost             bool
	open             bool
}

func (k *topic) Open(context.Context, string, ...string) error {
	k.open = true
	return nil
}

func (k *topic) Kill() { k.open = false }

func (k *topic) Abort(context.Context, string) error { return nil }

func (k *topic) Commit(_ context.Context, key string, value []byte) (int64, error) {
	if !k.open {
		return 0, errors.New("commit without a publisher that is open")
	}
	k.commits++
	if k.commits != k.failing || k.lost {
		k.records = append(k.records, [2]string{key, string(value)})
		k.known = len(k.records)
	}
	if k.commits == k.failing {
		return 0, errors.New("no answer")
	}
	return int64(len(k.records) - 1), nil
}

func (k *topic) LastPosition(_ context.Context, key string, end int64) ([]byte, bool, error) {
	if end == kafka.Committed {
		end = int64(k.known)
	}
	for _, r := range slices.Backward(k.records[:end]) {
		if r[0] == key {
			return []byte(r[1]), true, nil
		}
	}
	return nil, false, nil
}

// At-least-once delivery follows exactly-once delivery, and one of the commits of its first start fails: of the barrier, of the
// superseded position, or of the note that the checkpoint has the claim. The start that is tried again goes on from the same position, and
// the position in Kafka does not count any more. It is not superseded again by a start after that.
func TestHandoverIsTriedAgain(t *testing.T) {
	id := cdc.Source{SystemID: "s", Database: "d", Slot: "x"}
	for failing := range 4 {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("commit %d, answer lost %v", failing, lost), func(t *testing.T) {
				k := &topic{open: true}
				before := cdc.Checkpoint{Source: id, Progress: cdc.Progress{Position: "K"}, Generation: 1, ExactlyOnce: true, PositionTopic: "positions", Fence: Fence(id)}
				if err := NewTopic(k).Commit(t.Context(), before); err != nil {
					t.Fatal(err)
				}
				k.open, k.commits, k.failing, k.lost = false, 0, failing, lost
				store := NewFile(filepath.Join(t.TempDir(), "checkpoint"))
				t.Cleanup(func() { _ = store.Close() })
				if err := store.Save(t.Context(), before); err != nil { // the copy
					t.Fatal(err)
				}
				h := NewHandover(store, PlacesOptions{Topic: "positions", Publisher: func() Publisher { return k }})
				if err := start(t, h, id, "K"); (err != nil) != (failing > 0) {
					t.Fatalf("first start: %v", err)
				}
				k.failing = 0
				for range 2 {
					if err := start(t, h, id, "K"); err != nil {
						t.Fatal(err)
					}
				}
				last, found, err := NewTopic(k).Newest(t.Context())
				if err != nil || !found || last.ExactlyOnce || last.Sequence != claimed {
					t.Errorf("in Kafka at the end: %+v, %v, %v", last, found, err)
				}
				settled := len(k.records)
				if err := start(t, h, id, "K"); err != nil || len(k.records) != settled {
					t.Errorf("a later start has written to Kafka: %v", err)
				}
			})
		}
	}
}

// start makes one start of at-least-once delivery, which goes on from the position want.
func start(t *testing.T, h *Handover, id cdc.Source, want cdc.Position) error {
	t.Helper()
	loaded, found, err := h.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, found, err := h.Resume(t.Context(), id, loaded, found)
	if err != nil || !found || c.Progress.Position != want {
		t.Fatalf("resumed %+v, %v, %v", c, found, err)
	}
	c.Generation, c.Sequence, c.SavedAt = max(c.Generation, loaded.Generation)+1, 0, time.Now()
	c.ExactlyOnce, c.PositionTopic = false, ""
	return h.Claim(t.Context(), c, loaded)
}

// A teardown resets the relay's own position in Kafka, and leaves the checkpoint in the store if that is another relay's.
func TestResetLeavesTheCheckpointOfAnotherRelay(t *testing.T) {
	id := cdc.Source{SystemID: "s", Database: "d", Slot: "x"}
	for _, stored := range []string{"x", "other"} {
		k := &topic{open: true}
		err := NewTopic(k).Commit(t.Context(), cdc.Checkpoint{Source: id, Generation: 1, ExactlyOnce: true, PositionTopic: "positions", Fence: Fence(id)})
		store := NewFile(filepath.Join(t.TempDir(), "checkpoint"))
		err = errors.Join(err, store.Save(t.Context(), cdc.Checkpoint{Source: cdc.Source{SystemID: "s", Database: "d", Slot: stored}, Generation: 1}))
		p := NewPlaces(store, PlacesOptions{ExactlyOnce: true, Topic: "positions", Publisher: func() Publisher { return k }})
		p.id = id
		err = errors.Join(err, p.Reset(t.Context()))
		_, committed, read := NewTopic(k).Newest(t.Context())
		_, found, load := store.Load(t.Context())
		if err := errors.Join(err, read, load, store.Close()); err != nil || committed || found != (stored == "other") {
			t.Errorf("checkpoint of %s: in Kafka %v, in the store %v: %v", stored, committed, found, err)
		}
	}
}

// A leader that does not know yet what is committed is not asked before it has committed a barrier, and the barrier is not
// taken for a position. At-least-once delivery, which looks before it has a fence, starts again where that has made a commit visible.
func TestLastPositionBeforeABarrier(t *testing.T) {
	log, id := &topic{open: true}, cdc.Source{SystemID: "s", Database: "d", Slot: "x"}
	kept := NewTopic(log)
	for _, p := range []cdc.Position{"a", "b"} {
		if err := kept.Commit(t.Context(), cdc.Checkpoint{Source: id, Generation: 1, ExactlyOnce: true, Progress: cdc.Progress{Position: p}}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		log.known = 1 // "a" alone
		if last, found, err := kept.Last(t.Context()); err != nil || !found || last.Progress.Position != "b" {
			t.Errorf("%q, %v, %v", last.Progress.Position, found, err)
		}
	}
	log.known = 1
	store := NewFile(filepath.Join(t.TempDir(), "checkpoint"))
	t.Cleanup(func() { _ = store.Close() })
	h := NewHandover(store, PlacesOptions{Topic: "positions", Publisher: func() Publisher { return log }})
	for _, p := range []cdc.Position{"a", "b"} {
		if err := start(t, h, id, p); (err == nil) != (p == "b") {
			t.Errorf("start from %q: %v", p, err)
		}
	}
}

package checkpointtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// at returns a checkpoint of the suite's source whose content depends only on its numbers.
func at(generation, sequence uint64) cdc.Checkpoint {
	return cdc.Checkpoint{
		Source: cdc.Source{SystemID: "7412345678901234567", Database: "orders", Slot: "cdc_relay_orders", Timeline: 1},
		Progress: cdc.Progress{
			Position: cdc.Position(fmt.Sprintf("%08X%08X", uint32(generation), uint32(sequence))),
			Commit:   "00000000016B3700",
			TxID:     "742",
		},
		Generation:  generation,
		Sequence:    sequence,
		Fence:       "cdc-relay.fence",
		LastEventID: fmt.Sprintf("event-%d-%d", generation, sequence),
		SavedAt:     time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC),
	}
}

func (r rules) findsNothing() {
	t := r.t
	if c, found, err := r.open().Load(t.Context()); found || err != nil || c != (cdc.Checkpoint{}) {
		t.Fatalf("load from an empty place: %+v, found %t, error %v", c, found, err)
	}
}

func (r rules) givesBack() {
	t := r.t
	s := r.open()
	full := at(3, 1842)
	odd := at(4, math.MaxUint64)
	odd.Source = cdc.Source{SystemID: "söurce \"quoted\" \\ \u2028", Database: "données <&>", Timeline: math.MaxUint32}
	odd.SavedAt = odd.SavedAt.In(time.FixedZone("", 3600))
	for _, c := range []*cdc.Checkpoint{&full, {Source: full.Source, Generation: 4}, &odd} {
		r.Put(t, nil)
		mustSave(t, s, *c)
		if got := mustLoad(t, s); !equal(got, *c) {
			t.Errorf("saved  %+v\nloaded %+v", *c, got)
		}
	}
}

func (r rules) outlives() {
	t := r.t
	s := r.Open(t)
	mustSave(t, s, at(1, 5))
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	next := r.open()
	if got := mustLoad(t, next); !equal(got, at(1, 5)) {
		t.Errorf("after reopening: %+v", got)
	}
	mustSave(t, next, at(2, 1))
}

// check saves next over stored and compares the outcome with the rule.
func check(t *testing.T, s Store, stored, next cdc.Checkpoint, accepted bool) {
	t.Helper()
	err := s.Save(t.Context(), next)
	want := stored
	switch {
	case accepted && err != nil:
		t.Errorf("(%d, %d) over (%d, %d): %v", next.Generation, next.Sequence, stored.Generation, stored.Sequence, err)
	case !accepted && !fenced(err):
		t.Errorf("(%d, %d) over (%d, %d): want fenced, got %v", next.Generation, next.Sequence, stored.Generation, stored.Sequence, err)
	}
	if accepted {
		want = next
	}
	if got := mustLoad(t, s); !equal(got, want) {
		t.Errorf("(%d, %d) over (%d, %d) left %+v", next.Generation, next.Sequence, stored.Generation, stored.Sequence, got)
	}
}

// fenced reports whether err is both ErrFenced and a StopError of ClassFenced, whose fix is to start again, not to stop the leader.
func fenced(err error) bool {
	var stop *cdc.StopError
	return errors.Is(err, cdc.ErrFenced) && errors.As(err, &stop) && stop.Class == cdc.ClassFenced &&
		(strings.HasPrefix(stop.Fix, "restart") || strings.HasPrefix(stop.Fix, "start it again"))
}

func (r rules) acceptsRepeat() {
	t := r.t
	pair := r.pair()
	mustSave(t, pair[0], at(1, 1))
	mustSave(t, pair[0], at(1, 1))
	mustSave(t, pair[1], at(1, 1))
	mustSave(t, pair[0], at(1, 2))
	if err := pair[0].Save(t.Context(), at(1, 1)); !fenced(err) {
		t.Errorf("a late repetition: want fenced, got %v", err)
	}
}

func (r rules) refusesSameNumbers() {
	t := r.t
	pair := r.pair()
	mine, theirs := at(2, 1), at(2, 1)
	theirs.Progress.Position = "FFFFFFFFFFFFFFFF"
	mustSave(t, pair[0], mine)
	check(t, pair[1], mine, theirs, false)
}

func (r rules) refusesForeign() {
	t := r.t
	s := r.open()
	mustSave(t, s, at(1, 1))
	for name, change := range map[string]func(*cdc.Source){
		"system":   func(o *cdc.Source) { o.SystemID = "1" },
		"database": func(o *cdc.Source) { o.Database = "billing" },
		"slot":     func(o *cdc.Source) { o.Slot = "" },
	} {
		c := at(9, 9)
		change(&c.Source)
		wantStop(t, name, s.Save(t.Context(), c))
		if got := mustLoad(t, s); !equal(got, at(1, 1)) {
			t.Errorf("%s: the refused save left %+v", name, got)
		}
		wantStop(t, name+", claim", s.Claim(t.Context(), c, cdc.Checkpoint{}))
		wantStop(t, name+", claim of an older one", s.Claim(t.Context(), c, at(1, 0)))
		if err := s.Claim(t.Context(), c, at(1, 1)); err != nil {
			t.Errorf("%s: claim that continues from the other source's: %v", name, err)
		}
		r.Put(t, nil)
		mustSave(t, s, at(1, 1))
	}
}

func wantStop(t *testing.T, what string, err error) {
	t.Helper()
	var stop *cdc.StopError
	if !errors.As(err, &stop) || stop.Class != cdc.ClassPosition || errors.Is(err, cdc.ErrFenced) {
		t.Errorf("%s: want a stop of class %d, got %v", what, cdc.ClassPosition, err)
	}
}

func (r rules) acceptsTimeline() {
	t := r.t
	s := r.open()
	mustSave(t, s, at(1, 1))
	promoted := at(2, 1)
	promoted.Source.Timeline = 2
	check(t, s, at(1, 1), promoted, true)
}

func (r rules) refusesUnusable() {
	t := r.t
	s := r.open()
	mustSave(t, s, at(1, 1))
	good := r.Get(t)
	for name, value := range map[string][]byte{
		"empty":         {},
		"truncated":     good[:len(good)/2],
		"twice":         append(bytes.Clone(good), good...),
		"other text":    []byte("0/16B3748"),
		"other json":    []byte(`{"offset": 12}`),
		"array":         []byte(`[1, 2]`),
		"null":          []byte(`null`),
		"newer form":    bytes.Replace(good, []byte(`"version":1`), []byte(`"version":2`), 1),
		"bare numbers":  bytes.Replace(good, []byte(`"generation":"1"`), []byte(`"generation":1`), 1),
		"not a number":  bytes.Replace(good, []byte(`"generation":"1"`), []byte(`"generation":"x"`), 1),
		"source a text": bytes.Replace(good, []byte(`"source":{`), []byte(`"source":"x","was":{`), 1),
		"zero bytes":    make([]byte, 512),
	} {
		r.Put(t, value)
		_, found, err := s.Load(t.Context())
		if found {
			t.Errorf("%s: was accepted as a checkpoint", name)
		}
		wantStop(t, name+": load", err)
		wantStop(t, name+": save", s.Save(t.Context(), at(2, 1)))
		if got := r.Get(t); !bytes.Equal(got, value) {
			t.Errorf("%s: the refused save left %q", name, got)
		}
		copied := at(2, 1)
		copied.ExactlyOnce = true
		switch err := s.Save(t.Context(), copied); {
		case name == "newer form":
			wantStop(t, name+": save of a copy", err)
		case err != nil:
			t.Errorf("%s: save of a copy: %v", name, err)
		default:
			if got := mustLoad(t, s); !equal(got, copied) {
				t.Errorf("%s: a copy was stored as %+v", name, got)
			}
		}
	}
	r.Put(t, good[:1])
	if err := s.Reset(t.Context()); err != nil {
		t.Fatalf("reset: %v", err)
	}
	mustSave(t, s, at(afterReset(t, s), 1))
}

func (r rules) acceptsAfterFlush() {
	t := r.t
	s := r.open()
	mustSave(t, s, at(3, 7))
	r.Put(t, nil)
	if _, found, err := s.Load(t.Context()); found || err != nil {
		t.Fatalf("load after a flush: found %t, error %v", found, err)
	}
	mustSave(t, s, at(3, 8))
}

func (r rules) acceptsAfterRollback() {
	t := r.t
	s := r.open()
	mustSave(t, s, at(3, 7))
	old := r.Get(t)
	mustSave(t, s, at(4, 1))
	mustSave(t, s, at(4, 2))
	r.Put(t, old)
	check(t, s, at(3, 7), at(4, 3), true)
}

// resets: after a reset nothing is found, and a run that started before it cannot save. An exclusive store refuses a reset
// while such a run lasts.
func (r rules) resets() {
	t := r.t
	pair := r.pair()
	for _, next := range []uint64{5, 50} {
		mustSave(t, pair[0], at(next, 5))
		if err := pair[1].Reset(t.Context()); err != nil {
			t.Fatalf("reset: %v", err)
		}
		if r.Exclusive {
			if r.Get(t) != nil {
				t.Error("reset left something behind")
			}
			continue
		}
		for _, late := range [][2]uint64{{next, 6}, {next + 1, 0}, {next - 1, 9}} {
			if err := pair[0].Save(t.Context(), at(late[0], late[1])); !fenced(err) {
				t.Errorf("%d after a reset: want fenced, got %v", late, err)
			}
		}
	}
	other := at(afterReset(t, pair[0]), 0)
	other.Source.Slot = "another"
	mustSave(t, pair[0], other)
}

func (r rules) resetsNothing() {
	t := r.t
	s := r.open()
	if err := s.Reset(t.Context()); err != nil {
		t.Fatalf("reset of nothing: %v", err)
	}
	if err := s.Save(t.Context(), at(1000, 7)); !r.Exclusive && !fenced(err) {
		t.Errorf("a run whose checkpoint was lost before: want fenced, got %v", err)
	}
}

// afterReset is the generation of the first run after a reset.
func afterReset(t *testing.T, s Store) uint64 {
	t.Helper()
	c, found, err := s.Load(t.Context())
	if found || err != nil || c != (cdc.Checkpoint{Generation: c.Generation, Sequence: c.Sequence}) {
		t.Fatalf("load after a reset: %+v, found %t, error %v", c, found, err)
	}
	return c.Generation + 1
}

// claims: a claim replaces what was loaded, and nothing else.
func (r rules) claims() {
	t := r.t
	pair := r.pair()
	if err := pair[0].Claim(t.Context(), at(1, 0), cdc.Checkpoint{}); err != nil {
		t.Fatalf("claim of nothing: %v", err)
	}
	loaded := mustLoad(t, pair[1])
	mustSave(t, pair[0], at(1, 1)) // the earlier leader still lives
	err := pair[1].Claim(t.Context(), at(2, 0), loaded)
	if stop, ok := errors.AsType[*cdc.StopError](err); err == nil || ok || fenced(err) {
		t.Errorf("claim after a save: %v %v", err, stop)
	}
	if got := mustLoad(t, pair[1]); !equal(got, at(1, 1)) {
		t.Errorf("the refused claim left %+v", got)
	}
	if err := pair[1].Claim(t.Context(), at(2, 0), at(1, 1)); err != nil {
		t.Fatalf("claim: %v", err)
	}
	if err := pair[0].Save(t.Context(), at(1, 2)); !fenced(err) {
		t.Errorf("save after a claim: want fenced, got %v", err)
	}
	r.Put(t, nil)
	if err := pair[1].Claim(t.Context(), at(3, 0), at(2, 0)); err != nil {
		t.Errorf("claim after a flush: %v", err)
	}
	if r.Exclusive {
		if err := r.open().Claim(t.Context(), at(4, 0), at(3, 0)); !errors.Is(err, cdc.ErrStandby) {
			t.Errorf("claim beside another store: %v", err)
		}
		return
	}
	if err := pair[0].Reset(t.Context()); err != nil {
		t.Fatalf("reset: %v", err)
	}
	mark, _, err := pair[0].Load(t.Context())
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	if err := pair[0].Claim(t.Context(), at(mark.Generation+1, 0), mark); err != nil {
		t.Errorf("claim after a reset: %v", err)
	}
}

func (r rules) obeysContext() {
	t := r.t
	s := r.open()
	mustSave(t, s, at(1, 1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Save(ctx, at(1, 2)); !errors.Is(err, context.Canceled) {
		t.Errorf("save: %v", err)
	}
	if _, _, err := s.Load(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("load: %v", err)
	}
	if err := s.Reset(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("reset: %v", err)
	}
	if got := mustLoad(t, s); !equal(got, at(1, 1)) {
		t.Errorf("left %+v", got)
	}
}

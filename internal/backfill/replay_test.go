package backfill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rows is a table with n rows, numbered from first on.
type rows struct {
	tableread.Table

	first, n, batch int
}

func (t rows) Bounds(context.Context) ([]time.Time, error) { return nil, nil }

func (t rows) Orderly(context.Context, tableread.Filter) error { return nil }

func (t rows) Sorts() bool { return false }

func id(i int) string { return fmt.Sprintf("%04d", i) }

func (t rows) Keys(_ context.Context, _ tableread.Filter, _ tableread.Window, after tableread.Key, limit int) (keys []tableread.Key, err error) {
	for i := range t.n {
		if row := id(t.first + i); row > after.ID && len(keys) < limit {
			keys = append(keys, tableread.Key{ID: row})
		}
	}
	return keys, nil
}

func (t rows) Rows(_ context.Context, _ tableread.Filter, p tableread.Page, yield func(*cdc.Batch) error) error {
	for keys := range slices.Chunk(p.Keys, t.batch) {
		b := &cdc.Batch{Table: &cdc.Table{Columns: []cdc.Column{{Name: "id"}}}}
		for i, key := range keys {
			b.Spans = append(b.Spans, cdc.Span{Off: int32(len(b.Arena)), Len: int32(len(key.ID))})
			b.Arena = append(b.Arena, key.ID...)
			b.Txs = append(b.Txs, cdc.Tx{Row: i})
		}
		if err := yield(b); err != nil {
			return err
		}
	}
	return nil
}

// router makes a message of each row, and drops the rows that it is told to.
type router struct{ drops func(key string) bool }

func (r router) Route(b *cdc.Batch, dst *cdc.Routed) error {
	for row := range b.Txs {
		raw, _ := b.Value(b.Txs[row].Row, 0)
		if r.drops != nil && r.drops(string(raw)) {
			dst.Drops = append(dst.Drops, cdc.Drop{EventID: string(raw)})
			continue
		}
		dst.Messages = append(dst.Messages, cdc.Message{Topic: "routed", Key: raw})
	}
	return nil
}

// sink keeps what it was sent, and acknowledges as far as the test says.
type sink struct {
	sent    []string
	topics  map[string]bool
	acked   []string // of sent, what was acknowledged
	fail    int      // the send with this number fails; 0: none
	sends   int
	behind  uint64 // how many sends an answer waits for
	last    uint64 // the last number that was answered
	waiting map[uint64][]string
	answers chan cdc.Durable
}

var errSink = errors.New("broker away")

func newSink(behind uint64) *sink {
	return &sink{topics: map[string]bool{}, behind: behind, waiting: map[uint64][]string{}, answers: make(chan cdc.Durable, 10_000)}
}

func (s *sink) Send(_ context.Context, r *cdc.Routed) error {
	s.sends++
	if s.sends == s.fail {
		return errSink
	}
	var keys []string
	for i := range r.Messages {
		s.topics[r.Messages[i].Topic] = true
		keys = append(keys, string(r.Messages[i].Key))
	}
	s.sent = append(s.sent, keys...)
	s.waiting[r.Seq()] = keys
	if r.Seq() > s.behind+s.last {
		s.answer(r.Seq() - s.behind)
	}
	return nil
}

func (s *sink) answer(to uint64) {
	for seq := s.last + 1; seq <= to; seq++ {
		s.acked = append(s.acked, s.waiting[seq]...)
	}
	s.answers <- cdc.Durable{First: s.last + 1, Last: to}
	s.last = to
}

func (s *sink) Durable() <-chan cdc.Durable { return s.answers }

// However a replay is interrupted, one that goes on at a place that was reported publishes the rest: every row is published, each for
// the first time in order, and no row before the place is published again.
func TestInterruptedReplayGoesOnWithoutAGap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var selections []Selection
		var want []string
		for range rapid.IntRange(1, 3).Draw(t, "tables") {
			n := rapid.IntRange(0, 60).Draw(t, "rows")
			selections = append(selections, Selection{Table: rows{first: len(want), n: n, batch: rapid.IntRange(1, 9).Draw(t, "batch")}})
			for range n {
				want = append(want, id(len(want)))
			}
		}
		first := newSink(0)
		first.fail = rapid.IntRange(1, 30).Draw(t, "fails at")
		var reported Progress
		run := func(s *sink, from Place) error {
			return RunReplay(t.Context(), ReplayOptions{
				Selections: selections, Router: router{}, Sink: s, From: from, Every: time.Hour,
				Report: func(p Progress) error { reported = p; return nil },
			})
		}
		err := run(first, Place{})
		if err != nil && !errors.Is(err, errSink) {
			t.Fatal(err)
		}
		if !slices.Equal(first.sent, want[:len(first.sent)]) {
			t.Fatalf("the first run published %q of %q", first.sent, want)
		}
		if reported.Published > int64(len(first.acked)) || err == nil && int(reported.Published) != len(want) {
			t.Fatalf("%d of %d rows are acknowledged, reported %+v, %v", len(first.acked), len(want), reported, err)
		}
		second := newSink(0)
		if err := run(second, reported.Place); err != nil {
			t.Fatal(err)
		}
		if begins := len(want) - len(second.sent); begins > len(first.acked) || !slices.Equal(second.sent, want[begins:]) {
			t.Fatalf("%d rows are acknowledged, and the next run publishes %q of %q", len(first.acked), second.sent, want)
		}
	})
}

// A place counts only once everything before it is acknowledged, and a run ends only once everything is.
func TestPlaceIsThatOfWhatIsAcknowledged(t *testing.T) {
	track := newTracker(Place{})
	send := func(place string) {
		b := &cdc.Batch{}
		r, err := track.next(b, Place{Key: tableread.Key{ID: place}})
		if err != nil {
			t.Fatal(err)
		}
		r.Messages = make([]cdc.Message, 1)
		track.sent(r)
	}
	reach := func(published int64, place string) {
		t.Helper()
		if p := track.progress(); p.Published != published || p.Place.Key.ID != place {
			t.Errorf("progress %+v, want %d before %s", p, published, place)
		}
	}
	send("a")
	send("b")
	send("c")
	reach(0, "a")
	track.acknowledged(cdc.Durable{First: 2, Last: 2})
	reach(0, "a")
	track.acknowledged(cdc.Durable{First: 1, Last: 1})
	reach(2, "c")
	track.reached(Place{Key: tableread.Key{ID: "d"}})
	track.end()
	reach(2, "c")
	select {
	case <-track.idle:
		t.Error("it ends before the last batch is acknowledged")
	default:
	}
	track.acknowledged(cdc.Durable{First: 3, Last: 3})
	reach(3, "d")
	<-track.idle
}

// Rows that the router drops are counted as such, and --topic takes all the others.
func TestDropsAndTopic(t *testing.T) {
	s := newSink(0)
	var reported Progress
	err := RunReplay(t.Context(), ReplayOptions{
		Selections: []Selection{{Table: rows{n: 9, batch: 4}}}, Router: router{func(key string) bool { return key < id(4) }}, Sink: s, Topic: "elsewhere",
		Every: time.Hour, Report: func(p Progress) error { reported = p; return nil },
	})
	if err != nil || reported.Published != 5 || reported.Dropped != 4 || len(s.topics) != 1 || !s.topics["elsewhere"] {
		t.Errorf("%+v, %v, to %v", reported, err, s.topics)
	}
}

// An error of the sink or of the report ends the run, and how far it came is still reported.
func TestErrorsEndTheReplay(t *testing.T) {
	refused, saved := errors.New("record refused"), errors.New("disk full")
	for name, c := range map[string]struct {
		answer, report error
		every          time.Duration
	}{
		"an answer": {answer: refused, every: time.Hour},
		"a report":  {report: saved, every: time.Millisecond},
	} {
		s := newSink(1 << 40)
		if c.answer != nil {
			s.answers <- cdc.Durable{Err: c.answer}
		}
		reports := 0
		err := RunReplay(t.Context(), ReplayOptions{
			Selections: []Selection{{Table: rows{n: 9, batch: 4}}}, Router: router{}, Sink: s, Every: c.every,
			Report: func(Progress) error { reports++; return c.report },
		})
		if !errors.Is(err, errors.Join(c.answer, c.report)) && !errors.Is(err, c.answer) && !errors.Is(err, c.report) || reports == 0 {
			t.Errorf("%s: %v after %d reports", name, err, reports)
		}
	}
}

// A rate is kept without bursts, and time that Kafka took is not made up for.
func TestRateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace{rate: 1000, since: time.Now()}
		began := time.Now()
		for range 1000 {
			if err := p.wait(t.Context(), p.most()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); p.most() != 1 || took != 999*time.Millisecond {
			t.Errorf("1,000 rows in pieces of %d took %s", p.most(), took)
		}
		p.since = p.since.Add(-time.Minute)
		began = time.Now()
		for range 1000 {
			if err := p.wait(t.Context(), p.most()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 999*time.Millisecond {
			t.Errorf("after a minute's pause 1,000 rows took %s", took)
		}
	})
}

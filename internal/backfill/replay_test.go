package backfill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/relay"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rows is a table with n rows, numbered from first on.
type rows struct {
	tableread.Table

	first, n, batch int

	err error
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
	return t.err
}

// keyOfRow makes a message of each row.
type keyOfRow struct{}

func (keyOfRow) Route(b *cdc.Batch, dst *cdc.Routed) error {
	for row := range b.Txs {
		raw, _ := b.Value(b.Txs[row].Row, 0)
		dst.Messages = append(dst.Messages, cdc.Message{Key: raw})
	}
	return nil
}

// sink keeps what it was sent, and acknowledges it in pairs, the later one first.
type sink struct {
	sent    []string
	fail    int // the send with this number fails; 0: none
	sends   int
	held    uint64 // not answered yet
	answers chan cdc.Durable
}

func (s *sink) Open(context.Context, string, ...string) error { return nil }

func (s *sink) Fenced(context.Context) bool { return false }

func (s *sink) Kill() {}

func (s *sink) Reset() {}

func (s *sink) Durable() <-chan cdc.Durable { return s.answers }

func (s *sink) Send(_ context.Context, r *cdc.Routed) error {
	s.sends++
	if s.sends == s.fail {
		return cdc.Stop(cdc.ClassRuntime, "sink", errors.New("record refused"), "")
	}
	for i := range r.Messages {
		s.sent = append(s.sent, string(r.Messages[i].Key))
	}
	seq := r.Seq()
	if s.held == 0 && len(r.Messages) > 0 {
		s.held = seq
		return nil
	}
	s.answers <- cdc.Durable{First: seq, Last: seq}
	if s.held > 0 {
		s.answers <- cdc.Durable{First: s.held, Last: s.held}
	}
	s.held = 0
	return nil
}

// store keeps the last position.
type store struct {
	at     cdc.Position
	refuse error
}

func (s *store) Load(context.Context) (cdc.Checkpoint, bool, error) {
	return cdc.Checkpoint{Progress: cdc.Progress{Position: s.at}}, s.at != "", nil
}

func (s *store) Claim(context.Context, cdc.Checkpoint, cdc.Checkpoint) error { return nil }

func (s *store) Save(_ context.Context, c cdc.Checkpoint) error {
	if s.refuse == nil {
		s.at = c.Progress.Position
	}
	return s.refuse
}

// replays runs a relay on the tables until everything is published, or the sink refuses a record.
func replays(t *testing.T, source *Replay, to *sink, at *store) error {
	t.Helper()
	to.answers = make(chan cdc.Durable, 10_000)
	o := relay.Options{
		MaxEvents: 10_000, MaxBytes: 1 << 20, RetryInitial: time.Millisecond, RetryMax: time.Millisecond, StartupTimeout: time.Second, ShutdownTimeout: 10 * time.Millisecond,
		Display: func(p cdc.Position) string { return string(p) }, Dropped: func(string) {}, LeftOut: func(string, int) {},
	}
	stages := relay.Stages{Source: source, Router: keyOfRow{}, Sink: to, Checkpointer: at}
	return relay.New(o, stages, slog.New(slog.DiscardHandler), prometheus.NewRegistry()).RunUntil(t.Context(), source.Done())
}

// However a replay is interrupted, one that goes on at the place that was saved publishes the rest: every row is published, each for
// the first time in order, and what is told of its rows is true.
func TestInterruptedReplayGoesOnWithoutAGap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var selections []Selection
		var want []string
		for range rapid.IntRange(1, 3).Draw(rt, "tables") {
			n := rapid.IntRange(0, 2500).Draw(rt, "rows") // a page has 1,000
			selections = append(selections, Selection{Table: rows{first: len(want), n: n, batch: rapid.IntRange(20, 400).Draw(rt, "batch")}})
			for range n {
				want = append(want, id(len(want)))
			}
		}
		at, first := new(store), &sink{fail: rapid.IntRange(1, 30).Draw(rt, "fails at")}
		source := NewReplay(selections, rapid.SampledFrom([]int{0, 100_000}).Draw(rt, "rate"))
		err := replays(t, source, first, at)
		if cdc.ReasonOf(err) != "sink" && err != nil {
			rt.Fatal(err)
		}
		if !slices.Equal(first.sent, want[:len(first.sent)]) || int(source.Rows()) > len(first.sent) || err == nil && int(source.Rows()) != len(want) {
			rt.Fatalf("the first run published %d of %d rows, in order: %t, and says that it were %d", len(first.sent), len(want), slices.IsSorted(first.sent), source.Rows())
		}
		from, placed := PlaceAt(at.at)
		if placed != nil || int(from.Rows) > len(first.sent) {
			rt.Fatalf("saved %q, %v", at.at, placed)
		}
		second := new(sink)
		source = NewReplay(selections, 0)
		if err := replays(t, source, second, at); err != nil {
			rt.Fatal(err)
		}
		end, _ := PlaceAt(at.at)
		if !slices.Equal(second.sent, want[from.Rows:]) || int(source.Rows()) != len(second.sent) || int(end.Rows) != len(want) || end.Table != len(selections) {
			rt.Fatalf("the next run went on from %+v to %+v and published %d of %d rows, in order: %t", from, end, len(second.sent), len(want), slices.IsSorted(second.sent))
		}
	})
}

// A place counts only once everything before it is acknowledged. It is where the page of the last row begins that counts.
func TestPlaceIsThatOfWhatIsAcknowledged(t *testing.T) {
	r := NewReplay(nil, 0)
	reach := func(seq uint64, want string) {
		t.Helper()
		if place, err := PlaceAt(r.Progress(seq).Position); err != nil || place.Key.ID != want {
			t.Errorf("up to %d: %+v, %v, want %s", seq, place, err, want)
		}
	}
	reach(0, "")
	for _, page := range []string{"a", "a", "b", "c"} {
		r.noted(Place{Key: tableread.Key{ID: page}})
	}
	reach(0, "")
	reach(2, "a")
	reach(3, "b")
	r.Confirm(3)
	reach(3, "b")
	reach(1, "b")
	reach(4, "c")
}

// An error of the table, of the sink or of the state ends the replay.
func TestErrorsEndTheReplay(t *testing.T) {
	lost := errors.New("connection lost")
	full := cdc.Stop(cdc.ClassRuntime, "full", errors.New("disk full"), "")
	denied := cdc.ConfigError("denied", "", "permission denied")
	for reason, c := range map[string]struct {
		table, state error
	}{
		"replay_interrupted": {table: lost},
		"denied":             {table: denied},
		"full":               {state: full},
	} {
		source := NewReplay([]Selection{{Table: rows{n: 9, batch: 4, err: c.table}}}, 0)
		err := replays(t, source, new(sink), &store{refuse: c.state})
		if cdc.ReasonOf(err) != reason || !errors.Is(err, cmp.Or(c.table, c.state)) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// A rate is kept without bursts, and what Kafka took longer for is hardly made up for.
func TestRateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := NewReplay(nil, 1000).limiter()
		thousand := func() time.Duration {
			began := time.Now()
			for range 1000 {
				if err := limit.WaitN(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(began).Round(time.Millisecond)
		}
		if took := thousand(); took != time.Second {
			t.Errorf("1,000 rows took %s", took)
		}
		<-time.After(time.Minute)
		if took := thousand(); took != 900*time.Millisecond {
			t.Errorf("after a minute's pause 1,000 rows took %s", took)
		}
	})
}

// A piece has the rows of a millisecond.
func TestPieces(t *testing.T) {
	for rate, want := range map[int]int{0: 1, 1: 25, 12_000: 3, 25_000: 1} {
		var got []*cdc.Batch
		_ = rows{n: 25, batch: 25}.Rows(t.Context(), tableread.Filter{}, tableread.Page{Keys: make([]tableread.Key, 25)}, func(b *cdc.Batch) error {
			got = pieces(b, rate)
			return nil
		})
		sum := 0
		for _, b := range got {
			sum += b.Rows()
			if b.Txs[0].Row != 0 || len(b.Txs) != b.Rows() {
				t.Errorf("rate %d: piece %+v", rate, b)
			}
		}
		if len(got) != want || sum != 25 {
			t.Errorf("rate %d: %d pieces of %d rows", rate, len(got), sum)
		}
	}
}

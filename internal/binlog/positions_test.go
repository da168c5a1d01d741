package binlog

import (
	"log/slog"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// A position holds what was added before its batch was handed on, and nothing that came later.
func TestMarks(t *testing.T) {
	for _, f := range []cdc.Flavor{cdc.MySQL, cdc.MariaDB} {
		t.Run(string(f), func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { checkMarks(t, f) }) })
	}
}

func checkMarks(t *rapid.T, f cdc.Flavor) {
	empty, err := mysql.ParseSet(f, "")
	testenv.Must(t, err)
	var m positionIndex
	m.start(empty, mark{})

	drawn := origins(t, f)
	var added []mysql.GTID
	asked, upto := 0, []int{0} // by seq
	for range rapid.IntRange(1, 100).Draw(t, "steps") {
		switch rapid.IntRange(0, 5).Draw(t, "step") {
		case 0, 1, 2, 3:
			g := drawn()
			added = append(added, g)
			m.seen(g)
		case 4:
			if m.news() != (upto[len(upto)-1] < len(added)) {
				t.Fatal("news are wrong")
			}
			upto = append(upto, len(added))
			m.set(mark{seq: uint64(len(upto) - 1)})
		case 5:
			asked = rapid.IntRange(asked, len(upto)-1).Draw(t, "seq")
			want := empty.Clone()
			for _, g := range added[:upto[asked]] {
				want.Add(g)
			}
			p, ok := m.progress(uint64(asked))
			if !ok || string(p.Position) != want.String() {
				t.Fatalf("position %q, want %q", p.Position, want)
			}
		}
	}
}

// origins returns GTIDs of several servers in turn. MySQL's come out of order, as from a replica that applies in parallel.
func origins(t *rapid.T, f cdc.Flavor) func() mysql.GTID {
	next := map[int]uint64{}
	late := map[int][]uint64{}
	return func() mysql.GTID {
		origin := rapid.IntRange(0, 9).Draw(t, "origin")
		if f == cdc.MariaDB {
			next[origin]++
			return mysql.GTID{Domain: uint32(origin), Server: rapid.Uint32Range(1, 2).Draw(t, "server"), Number: next[origin]}
		}
		g := mysql.GTID{SID: uuid.UUID{byte(origin / 2)}}
		if origin%2 == 1 {
			g.Tag = gomysql.NewTag("blue")
		}
		if held := late[origin]; len(held) > 0 && rapid.Bool().Draw(t, "late") {
			g.Number, late[origin] = held[0], held[1:]
			return g
		}
		for rapid.IntRange(0, 3).Draw(t, "skip") == 0 {
			next[origin]++
			late[origin] = append(late[origin], next[origin])
		}
		next[origin]++
		g.Number = next[origin]
		return g
	}
}

// endless is a queue that is never full.
type endless struct{ batches int }

func (q *endless) Offer(*cdc.Batch) bool {
	q.batches++
	return true
}

func (q *endless) Space() <-chan struct{} { return nil }

// While Kafka does not acknowledge a batch, memory does not grow with the transactions of other tables.
func TestMemoryIsFlatWhileABatchIsInFlight(t *testing.T) {
	const million = 1_000_000
	for name, tt := range map[string]struct {
		flavor       cdc.Flavor
		transactions uint64
		origin       func(n uint64) mysql.GTID
	}{
		"one server":      {cdc.MySQL, 2 * million, func(n uint64) mysql.GTID { return mysql.GTID{SID: uuid.UUID{1}, Number: n + 1} }},
		"servers in turn": {cdc.MySQL, million, func(n uint64) mysql.GTID { return mysql.GTID{SID: uuid.UUID{byte(n % 3)}, Number: n/3 + 1} }},
		"one domain":      {cdc.MariaDB, 2 * million, func(n uint64) mysql.GTID { return mysql.GTID{Server: 1, Number: n + 1} }},
		"twenty in turn":  {cdc.MariaDB, million, func(n uint64) mysql.GTID { return mysql.GTID{Domain: uint32(n % 20), Server: 1, Number: n + 1} }},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(Options{}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
			s.flavor = tt.flavor
			from, err := mysql.ParseSet(s.flavor, "")
			testenv.Must(t, err)
			s.received = from.Clone()
			s.positions.start(from, mark{})
			s.handed.Store(1)
			s.positions.set(mark{seq: 1})
			q := &endless{}
			ss := newSession(s, newDump(nil, "", &dialer{flavor: s.flavor}))
			ss.out = q
			before := cdctest.Heap()
			for n := range tt.transactions {
				ss.tx.open, ss.tx.id = true, tt.origin(n)
				testenv.Must(t, ss.commit(t.Context()))
				if n%2500 == 0 { // two ticks a second at 5,000 transactions a second
					ss.beat = time.Time{}
					testenv.Must(t, ss.tick(t.Context()))
					s.Progress(0)
				}
			}
			if grown := cdctest.Heap() - before; grown > 1<<20 {
				t.Errorf("%d transactions of other tables hold %d KiB", tt.transactions, grown>>10)
			}
			if q.batches > 0 {
				t.Errorf("%d heartbeats were handed on before the batch was durable", q.batches)
			}
			s.Confirm(1)
			ss.beat = time.Time{}
			if err := ss.tick(t.Context()); err != nil || q.batches != 1 {
				t.Errorf("%d heartbeats, %v once the batch is durable, want 1", q.batches, err)
			}
			if got, want := string(s.Progress(2).Position), s.received.String(); got != want {
				t.Errorf("position %.200s, want %.200s", got, want)
			}
		})
	}
}

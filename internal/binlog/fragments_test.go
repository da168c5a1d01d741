package binlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// fragmentEvent makes a fragment. A size of 0 is not given.
func fragmentEvent(number, of int, size uint64, data string) event {
	body := binary.LittleEndian.AppendUint32(nil, uint32(of))
	body = binary.LittleEndian.AppendUint32(body, uint32(number))
	if size == 0 {
		return eventOf(partialRows, 0, string(append(body, 0))+data)
	}
	return eventOf(partialRows, 0, string(binary.LittleEndian.AppendUint64(append(body, sizeGiven), size))+data)
}

// split makes fragments of an event, cut before the given offsets.
func split(e event, offsets ...int) (list []event) {
	size, begin := uint64(len(e.raw)), 0
	for i, end := range append(offsets, len(e.raw)) {
		list = append(list, fragmentEvent(i+1, len(offsets)+1, size, string(e.raw[begin:end])))
		begin, size = end, 0
	}
	return list
}

func xidEvent() event { return eventOf(replication.XID_EVENT, 0, "12345678") }

// A rows event is the same however MariaDB cuts it, among others that came whole and in the transaction after it; one of another table is
// left out.
func TestFragmentsOfRows(t *testing.T) {
	foreign := rowEvent(strings.Repeat(goodRow, 100))
	foreign.raw[eventHeader] = 9 // the table
	update := rowEvent(goodRow)
	update.raw[4] = byte(replication.UPDATE_ROWS_EVENTv1)
	rapid.Check(t, func(rt *rapid.T) {
		count := rapid.IntRange(1, 2*batchRows).Draw(rt, "rows")
		ours := rowEvent(strings.Repeat(goodRow, count))
		cut := func(e event) []event {
			offsets := rapid.SliceOfNDistinct(rapid.IntRange(fragmentHead, len(e.raw)-1), 0, min(5, len(e.raw)-fragmentHead), rapid.ID[int]).Draw(rt, "offsets")
			slices.Sort(offsets)
			return split(e, offsets...)
		}
		s := New(Options{Options: mysql.Options{Tables: []string{"d.outbox"}}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		q := &rowCount{}
		events := slices.Concat([]event{mapEvent(), rowEvent(goodRow)}, cut(ours), cut(foreign), cut(update), []event{rowEvent(goodRow), xidEvent()})
		ss := sessionAt(t, s, q)
		for range 2 {
			if err := ss.takeAll(t, slices.Clone(events)...); err != nil {
				rt.Fatal(err)
			}
		}
		if want := 2 * (count + 2); q.rows != want || ss.parts.raw != nil {
			rt.Fatalf("%d rows were handed on, want %d; %d bytes are left", q.rows, want, len(ss.parts.raw))
		}
	})
}

// Fragments that do not make one rows event hand nothing on. They are read once more, and then the relay stops, with the place.
//
//covers:binlogs 20 messages both
func TestFragmentsThatDoNotFit(t *testing.T) {
	rows := rowEvent(strings.Repeat(goodRow, 8))
	size := uint64(len(rows.raw))
	parts := func() []event { return split(rowEvent(strings.Repeat(goodRow, 8)), 30, 40, 50) }
	without := func(i int) []event { return slices.Delete(parts(), i, i+1) }
	with := func(i int, e event) []event { return slices.Insert(parts(), i, e) }
	instead := func(i int, e event) []event { return slices.Replace(parts(), i, i+1, e) }
	short, long := string(rows.raw[:30]), strings.Repeat("x", 50)
	for name, tt := range map[string]struct {
		events []event
		says   string
	}{
		"first is missing":        {without(0), "fragment 2 of 4 of a rows event follows fragment 0 of 0"},
		"one is missing":          {without(1), "fragment 3 of 4 of a rows event follows fragment 1 of 4"},
		"last is missing":         {without(3), "event of kind 16 follows fragment 3 of 4"},
		"one comes twice":         {with(2, parts()[1]), "fragment 2 of 4 of a rows event follows fragment 2 of 4"},
		"it begins again":         {with(2, parts()[0]), "fragment 1 of 4 of a rows event follows fragment 2 of 4"},
		"other rows between them": {with(2, rowEvent(goodRow)), "event of kind 30 follows fragment 2 of 4"},
		"another total":           {instead(2, fragmentEvent(3, 5, 0, short)), "fragment 3 of 5 of a rows event follows fragment 2 of 4"},
		"a number beyond it":      {[]event{fragmentEvent(1, 0, size, short)}, "fragment 1 of 0 of a rows event follows"},
		"fewer bytes":             {instead(3, fragmentEvent(4, 4, 0, "x")), fmt.Sprintf("have 51 bytes, which has %d", size)},
		"more bytes":              {instead(3, fragmentEvent(4, 4, 0, long)), fmt.Sprintf("have more than its %d bytes", size)},
		"another size":            {instead(0, fragmentEvent(1, 4, size+1, short)), fmt.Sprintf("have %d bytes, which has %d", size, size+1)},
		"more than an event has":  {instead(0, fragmentEvent(1, 4, math.MaxUint32+1, short)), fmt.Sprintf("have %d bytes, which has %d", size, uint64(math.MaxUint32)+1)},
		"no rows":                 {split(eventOf(replication.XID_EVENT, 0, "12345678")), "make an event of kind 16"},
		"without numbers":         {[]event{eventOf(partialRows, 0, "\x01\x00\x00\x00")}, "truncated"},
		"without its size":        {[]event{eventOf(partialRows, 0, "\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00")}, "truncated"},
		"without its header":      {[]event{fragmentEvent(1, 2, size, "x")}, "truncated"},
	} {
		s := New(Options{Options: mysql.Options{Tables: []string{"d.outbox"}}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		q := &rowCount{}
		for attempt, reason := range []string{"", "event_unreadable"} {
			err := sessionAt(t, s, q).takeAll(t, slices.Concat([]event{mapEvent()}, tt.events, []event{xidEvent()})...)
			if err == nil || cdc.ReasonOf(err) != reason || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s, attempt %d: %v (%s), want %q (%s)", name, attempt, err, cdc.ReasonOf(err), tt.says, reason)
			}
			if stop, ok := errors.AsType[*cdc.StopError](err); ok && (!strings.HasPrefix(err.Error(), "transaction 0-1-2: ") || !strings.HasSuffix(stop.Fix, "`cdc-relay position set 0-1-2 --yes`")) {
				t.Errorf("%s: %s", name, cdc.Explain(err))
			}
		}
		if q.rows > 0 || s.received.String() != "0-1-1" {
			t.Errorf("%s: %d rows were handed on, and the position is %s", name, q.rows, s.received)
		}
	}
}

// A transaction whose rows come in fragments has their time.
func TestTimeOfFragments(t *testing.T) {
	rows := rowEvent(strings.Repeat(goodRow, 8))
	binary.LittleEndian.PutUint32(rows.raw, 1700000000)
	s := New(Options{Options: mysql.Options{Tables: []string{"d.outbox"}}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	ss := sessionAt(t, s, nil)
	ss.tx = transaction{open: true, begun: true, id: mysql.GTID{Server: 1, Number: 2}}
	if at, err := ss.timeOf(ss.tx.id, split(rows, 30)[0]); at != 1700000000e6 || err != nil {
		t.Errorf("%d, %v", at, err)
	}
}

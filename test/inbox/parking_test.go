package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/parking"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

// parked is the parking of a consumer, with what its tests need.
type parked[Tx any] struct {
	*parking.Parking[Tx]

	t  *testing.T
	in *inbox.Inbox[Tx]
	db writer.DB[Tx]
}

func newParked[Tx any](t *testing.T, db writer.DB[Tx], consumer string, opts ...parking.Option) parked[Tx] {
	t.Helper()
	in, err := inbox.New(db, consumer)
	testenv.Must(t, err)
	p, err := parking.New(in, opts...)
	testenv.Must(t, err)
	return parked[Tx]{p, t, in, db}
}

func record(key string, offset int64) *inbox.Message {
	m := message(fmt.Sprintf("%s%d", key, offset))
	m.Topic, m.Partition, m.Offset, m.Type, m.AggregateType, m.Attempt = "orders", 3, offset, "Order"+key, "Order", 5
	if key != "" {
		m.Key = []byte(key)
	}
	m.Value, m.Headers = []byte{0, 255}, []inbox.Header{{Key: "h", Value: nil}}
	return m
}

func (p parked[Tx]) count(f parking.Filter, want int64) {
	p.t.Helper()
	if n, err := p.Count(p.t.Context(), f); err != nil || n != want {
		p.t.Errorf("%d are parked, want %d (%v) by %.200v", n, want, err, f)
	}
}

func (p parked[Tx]) park(m *inbox.Message, want bool) {
	p.t.Helper()
	if got, err := p.Park(p.t.Context(), m, errors.New("out of \x00 stock \xff")); err != nil || got != want {
		p.t.Errorf("%s: parked %v, want %v (%v)", m.ID, got, want, err)
	}
}

func (p parked[Tx]) follow(m *inbox.Message, want bool) {
	p.t.Helper()
	if got, err := p.Follow(p.t.Context(), m); err != nil || got != want {
		p.t.Errorf("%s: blocked %v, want %v (%v)", m.ID, got, want, err)
	}
}

// ready returns the only message that is to be handled, nil if there is none.
func (p parked[Tx]) ready(want string) *parking.Parked {
	p.t.Helper()
	rows, err := p.Ready(p.t.Context(), "orders", 3)
	testenv.Must(p.t, err)
	if want == "" && len(rows) == 0 {
		return nil
	}
	if len(rows) != 1 || rows[0].ID.ID != want {
		p.t.Fatalf("%d are ready, want %q", len(rows), want)
	}
	return rows[0]
}

func (p parked[Tx]) redo(row *parking.Parked, fails error, want bool) {
	p.t.Helper()
	done, err := p.Redo(p.t.Context(), row, func(ctx context.Context, tx Tx, _ *writer.Unit) error {
		return errors.Join(fails, add(row.Message)(ctx, exec(p.db, tx)))
	})
	if done != want || !errors.Is(err, fails) {
		p.t.Errorf("%s: done %v, want %v (%v)", row.ID.ID, done, want, err)
	}
	if fails != nil {
		row.Message.Attempt++
		testenv.Must(p.t, p.Failed(p.t.Context(), row, err))
	}
}

func TestParking(t *testing.T) {
	onEachWay(t, func(t *testing.T, db *database, w way) {
		for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelSerializable} {
			switch a := w.open(t, level).(type) {
			case typed[*sql.Tx]:
				park(t, db, a.db)
			case typed[pgx.Tx]:
				park(t, db, a.db)
			}
			db.exec(t, "DELETE FROM effects", "DELETE FROM inbox", "DELETE FROM inbox_parked")
		}
	})
}

func park[Tx any](t *testing.T, db *database, access writer.DB[Tx]) {
	t.Helper()
	p, other := newParked(t, access, "c", parking.WithLimit(6)), newParked(t, access, "other")
	testenv.Must(t, p.Check(t.Context()))
	if err := newParked(t, access, "c", parking.WithTable("nowhere")).Check(t.Context()); !errors.Is(err, inbox.ErrDatabase) {
		t.Errorf("a missing table: %v", err)
	}
	a1, a2, a3 := record("a", 1), record("a", 2), record("a", 3)
	p.park(a1, true)
	p.park(a1, false) // another process did
	p.follow(a2, true)
	p.follow(a2, true)
	p.follow(record("b", 1), false)
	p.count(parking.Filter{}, 2)
	other.count(parking.Filter{}, 0)
	handled := record("b", 2)
	repeats := func(m *inbox.Message, want bool) {
		t.Helper()
		if repeat, err := p.in.Handle(t.Context(), m, func(context.Context, Tx, *writer.Unit) error { return nil }); err != nil || repeat != want {
			t.Errorf("%s: repeat %v (%v)", m.ID, repeat, err)
		}
	}
	repeats(a1, true)
	repeats(handled, false)
	p.park(handled, false)
	for m, want := range map[*inbox.Message]bool{a1: true, a2: true, handled: false} {
		if got, err := p.IsParked(t.Context(), m); err != nil || got != want {
			t.Errorf("%s is parked: %v (%v)", m.ID, got, err)
		}
	}
	if keys, err := p.Blocked(t.Context(), "orders", 3); err != nil || len(keys) != 1 || !keys[parking.KeyOf(a3)] {
		t.Errorf("%d keys are blocked (%v)", len(keys), err)
	}
	retry(p, a2, a3)
	drop(p)
	filters(p)
	if n := db.count(t, "effects"); n != 3 {
		cdctest.Violation(t, kindOf(n-2), "%d effects of 3 messages", n)
	}
}

// retry handles a1, which fails once, a2, which was chosen and waits behind it, and a3.
func retry[Tx any](p parked[Tx], a2, a3 *inbox.Message) {
	p.t.Helper()
	ctx := p.t.Context()
	p.ready("")
	choose := func(f parking.Filter, want int64) {
		p.t.Helper()
		if n, err := p.Retry(ctx, f); err != nil || n != want {
			p.t.Errorf("chose %d, want %d (%v)", n, want, err)
		}
	}
	choose(parking.Filter{IDs: []inbox.MessageID{{Source: a2.Source, ID: a2.ID}}}, 1)
	choose(parking.Filter{IDs: []inbox.MessageID{{Source: a2.Source, ID: a2.ID}}}, 0)
	row := p.ready("a1")
	if m := row.Message; string(m.Key) != "a" || string(m.Value) != "\x00\xff" || len(m.Headers) != 1 || m.Attempt != 5 || m.Offset != 1 || row.Error != "out of  stock " || time.Since(row.At).Abs() > time.Hour {
		p.t.Errorf("%+v %+v", row, m)
	}
	p.redo(row, errors.New("still out of stock"), false)
	p.ready("")
	choose(parking.Filter{}, 2)
	row = p.ready("a1")
	if row.Error != "still out of stock" || row.Message.Attempt != 6 {
		p.t.Errorf("%+v", row)
	}
	p.redo(row, nil, true)
	p.redo(row, nil, false) // another process did
	p.follow(a3, true)
	for _, want := range []string{"a2", "a3"} {
		row := p.ready(want)
		if first, err := p.First(ctx, "orders", 3, parking.KeyOf(a3)); err != nil || first == nil || first.ID != row.ID {
			p.t.Errorf("the key's first message is %v (%v)", first, err)
		}
		p.redo(row, nil, true)
	}
	p.ready("")
	p.follow(record("a", 4), false)
}

// drop drops the first message of a key; what is behind it is handled. A repeat stays parked although its record was purged.
func drop[Tx any](p parked[Tx]) {
	p.t.Helper()
	ctx := p.t.Context()
	d1, d2 := record("d", 1), record("d", 2)
	p.park(d1, true)
	p.follow(d2, true)
	_, err := p.in.Purge(ctx, time.Now().Add(time.Hour), 100)
	testenv.Must(p.t, err)
	p.follow(d1, true)
	p.count(parking.Filter{Key: []byte("d")}, 2)
	if n, err := p.Drop(ctx, parking.Filter{Key: []byte("d"), Error: "stock"}); err != nil || n != 1 {
		p.t.Errorf("dropped %d (%v)", n, err)
	}
	p.ready("d2")
	if _, err := p.Drop(ctx, parking.Filter{}); err == nil || !strings.Contains(err.Error(), "set a field of Filter, or All") {
		p.t.Errorf("drop without a filter: %v", err)
	}
	if n, err := p.Drop(ctx, parking.Filter{IDs: []inbox.MessageID{}}); err != nil || n != 0 {
		p.t.Errorf("dropped %d of no IDs (%v)", n, err)
	}
	if n, err := p.Drop(ctx, parking.Filter{All: true}); err != nil || n != 1 {
		p.t.Errorf("dropped %d (%v)", n, err)
	}
}

func filters[Tx any](p parked[Tx]) {
	p.t.Helper()
	for offset := range int64(5) {
		p.park(record("", offset), true) // no key, and none waits behind another
	}
	p.park(record("f", 9), true)
	if _, err := p.Park(p.t.Context(), record("g", 10), errors.New("no")); !errors.Is(err, parking.ErrFull) || errors.Is(err, inbox.ErrDatabase) {
		p.t.Errorf("above the limit: %v", err)
	}
	partition, elsewhere, many := int32(3), int32(4), []inbox.MessageID{{Source: record("f", 9).Source, ID: "f9"}}
	for i := range 40_000 {
		many = append(many, inbox.MessageID{Source: "/orders", ID: `"\{` + strconv.Itoa(i)})
	}
	for _, c := range []*struct {
		f    parking.Filter
		want int64
	}{
		{parking.Filter{}, 6},
		{parking.Filter{Topic: "orders", Partition: &partition, Type: "Orderf", AggregateType: "Order", Key: []byte("f"), Before: time.Now().Add(time.Hour), Error: "of  st"}, 1},
		{parking.Filter{Topic: "other"}, 0},
		{parking.Filter{Partition: &elsewhere}, 0},
		{parking.Filter{Type: "Order"}, 5},
		{parking.Filter{AggregateType: "order"}, 0},
		{parking.Filter{Before: time.Now().Add(-time.Hour)}, 0},
		{parking.Filter{Error: "%"}, 0},
		{parking.Filter{IDs: []inbox.MessageID{{Source: record("f", 9).Source, ID: "f9"}, {Source: "other", ID: "1"}}}, 1},
		{parking.Filter{IDs: []inbox.MessageID{}}, 0},
		{parking.Filter{IDs: many}, 1},
	} {
		p.count(c.f, c.want)
	}
	pages(p, 6)
}

// pages lists all; 100 are a page.
func pages[Tx any](p parked[Tx], want int) {
	p.t.Helper()
	seen := map[string]bool{}
	for row, err := range p.List(p.t.Context(), parking.Filter{}) {
		testenv.Must(p.t, err)
		if row.Error == "" || seen[row.ID.ID] {
			p.t.Errorf("%s has no error, or is listed twice", row.ID.ID)
		}
		seen[row.ID.ID] = true
	}
	if len(seen) != want {
		p.t.Errorf("listed %d, want %d", len(seen), want)
	}
}

func TestParkingListsPages(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		p := newParked(t, db.ways()[0].open(t, sql.LevelDefault).(typed[*sql.Tx]).db, "c")
		for n := range int64(101) {
			p.park(record("", n), true)
		}
		pages(p, 101)
	})
}

// A message that cannot be decoded keeps no other one from being listed and retried, and can be dropped.
func TestParkedMessageThatCannotBeDecoded(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		p := newParked(t, writer.SQL(db.conn, db.dialect), "c")
		for _, key := range []string{"a", "b"} {
			p.park(record(key, 1), true)
		}
		db.exec(t, "UPDATE inbox_parked SET record = '{' WHERE message_id = 'a1'")
		_, err := p.Retry(t.Context(), parking.Filter{})
		testenv.Must(t, err)
		rows, err := p.Ready(t.Context(), "orders", 3)
		if len(rows) != 1 || rows[0].ID.ID != "b1" || err == nil || errors.Is(err, inbox.ErrDatabase) {
			t.Errorf("%d are ready (%v)", len(rows), err)
		}
		var listed string
		for row, err := range p.List(t.Context(), parking.Filter{}) {
			listed += fmt.Sprint(row.ID.ID, " ", err == nil, " ")
			if err != nil {
				n, err := p.Drop(t.Context(), parking.Filter{IDs: []inbox.MessageID{row.ID}})
				listed += fmt.Sprint("dropped ", n, err, " ")
			}
		}
		if listed != "a1 false dropped 1 <nil> b1 true " {
			t.Errorf("listed %s", listed)
		}
	})
}

// counting counts the transactions that begin.
type counting struct {
	*writer.SQLDB[*sql.Tx]

	begun *atomic.Int64
}

func (c counting) Begin(ctx context.Context) (*sql.Tx, error) {
	c.begun.Add(1)
	return c.SQLDB.Begin(ctx)
}

func (c counting) ReadCommitted() writer.DB[*sql.Tx] {
	return counting{c.SQLDB.ReadCommitted().(*writer.SQLDB[*sql.Tx]), c.begun}
}

// Under SERIALIZABLE messages that are parked at once do not make each other run again.
func TestParkingUnderSerializable(t *testing.T) {
	db := newDatabase(t, servers[0])
	d := counting{writer.SQL(db.conn, db.dialect), new(atomic.Int64)}
	d.TxOptions = &sql.TxOptions{Isolation: sql.LevelSerializable}
	p := newParked(t, d, "c")
	const workers, each = 8, 20
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range each {
				p.park(record(strconv.Itoa(w), int64(i)), true)
			}
		})
	}
	all.Wait()
	if n := d.begun.Load(); n != workers*each {
		t.Errorf("%d transactions for %d messages", n, workers*each)
	}
}

package writertest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/writertest"
)

// failing is a test that may fail.
type failing struct {
	testing.TB

	said string
}

func (f *failing) Helper() {}

func (f *failing) Context() context.Context { return context.Background() }

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// said returns what a check says when it fails; "" if it passes.
func said(t *testing.T, check func(f *failing)) string {
	t.Helper()
	f, done := &failing{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		check(f)
	}()
	<-done
	return f.said
}

// record appends events to a recorder: two orders that are placed, and one that is paid.
func record(t *testing.T) (*writer.Writer, *writertest.Recorder) {
	t.Helper()
	var r writertest.Recorder
	n := byte(0)
	w, err := writer.New(writer.Postgres, r.Option(), writer.WithIDs(func() (uuid.UUID, error) { n++; return uuid.UUID{15: n}, nil }))
	if err != nil {
		t.Fatal(err)
	}
	order := func(id, typ string, total any) *writer.Event {
		e, err := writer.JSON("Order", id, typ, map[string]any{"id": id, "total": total})
		if err != nil {
			t.Fatal(err)
		}
		e.TenantID, e.Headers = "acme", map[string]string{"trace": "t-" + id}
		return e
	}
	tx := r.Tx()
	err = errors.Join(
		w.Append(t.Context(), tx, order("o-1", "OrderPlaced", 12), order("o-2", "OrderPlaced", 13)),
		w.Append(t.Context(), tx, order("o-1", "OrderPaid", 12345678901234567)), tx.Commit())
	if err != nil {
		t.Fatal(err)
	}
	return w, &r
}

func TestRequireAppended(t *testing.T) {
	w, r := record(t)
	for _, c := range []struct {
		m    writertest.Match
		want []string // what the failure says
	}{
		{writertest.Match{Type: "OrderPaid"}, nil},
		{writertest.Match{AggregateID: "o-2", AggregateType: "Order", TenantID: "acme", Headers: map[string]string{"trace": "t-o-2"}}, nil},
		{writertest.Match{Payload: map[string]any{"total": 13, "id": "o-2"}}, nil},
		{writertest.Match{Payload: `{"total": 13, "id": "o-2"}`}, nil},
		{writertest.Match{Payload: []byte(`{"total":12345678901234567,"id":"o-1"}`)}, nil},
		{writertest.Match{Payload: `{"total":12345678901234568,"id":"o-1"}`}, []string{"no event matches", "12345678901234567"}},
		{
			writertest.Match{Type: "OrderPaid", AggregateID: "o-2", Headers: map[string]string{"trace": "t-o-2", "op": "x"}},
			[]string{
				`no event matches {Type: "OrderPaid", AggregateID: "o-2", Headers["op"]: "x", Headers["trace"]: "t-o-2"}`,
				"the nearest of 3 is event 00000000-0000-0000-0000-000000000002, which has:\n\t" + `Type: "OrderPlaced", want "OrderPaid"`,
				`Headers["op"]: missing, want "x"`,
			},
		},
		{writertest.Match{Topic: "t", Key: "k", Payload: "x"}, []string{`Topic: "", want "t"`, `Key: "", want "k"`, "Payload: {", "want x"}},
		{writertest.Match{Type: "OrderPlaced"}, []string{
			`2 events match {Type: "OrderPlaced"}: set more fields`, "differ in:", `AggregateID: "o-1", want "o-2"`, "Payload: {",
		}},
	} {
		text := said(t, func(f *failing) { writertest.RequireAppended(f, w, r, c.m) })
		if (text == "") != (c.want == nil) {
			t.Errorf("%v: says %q", c.m, text)
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%v: says %q without %q", c.m, text, want)
			}
		}
		not := said(t, func(f *failing) { writertest.RequireNotAppended(f, w, r, c.m) })
		if found := c.want == nil || strings.HasPrefix(text, "2 events"); found != strings.Contains(not, " matches {") {
			t.Errorf("%v: RequireNotAppended says %q", c.m, not)
		}
	}
	long := said(t, func(f *failing) {
		writertest.RequireAppended(f, w, r, writertest.Match{Payload: strings.Repeat("x", 100000)})
	})
	if len(long) > 5000 || !strings.Contains(long, "(100000 bytes)") {
		t.Errorf("says %d bytes", len(long))
	}
	if e := writertest.RequireAppended(t, w, r, writertest.Match{Type: "OrderPaid"}); e.AggregateID != "o-1" || e.OccurredAt.IsZero() || e.Tombstone {
		t.Errorf("event %+v", e)
	}
}

func TestRequireAppendedInOrder(t *testing.T) {
	w, r := record(t)
	placed, paid, first := writertest.Match{Type: "OrderPlaced"}, writertest.Match{Type: "OrderPaid"}, writertest.Match{AggregateID: "o-1"}
	if events := writertest.RequireAppendedInOrder(t, w, r, first, placed, first); events[1].AggregateID != "o-2" || events[2].Type != "OrderPaid" {
		t.Errorf("events %v", events)
	}
	for want, ms := range map[string][]writertest.Match{
		"after the events of the first 1 matches no event matches": {paid, placed},
		"there are no events": {placed, placed, paid, placed},
		"the nearest of 1":    {placed, placed, placed},
	} {
		if text := said(t, func(f *failing) { writertest.RequireAppendedInOrder(f, w, r, ms...) }); !strings.Contains(text, want) {
			t.Errorf("says %q, want %q", text, want)
		}
	}
}

// A rollback forgets the events of its own transaction, with each form of statement, and ends it.
func TestRecorderOfTwoTransactions(t *testing.T) {
	for _, d := range []writer.Dialect{writer.Postgres, writer.MySQL} {
		for _, n := range []int{1, 2, 100} {
			var r writertest.Recorder
			w, err := writer.New(d, r.Option())
			if err != nil {
				t.Fatal(err)
			}
			undone, kept := r.Tx(), r.Tx()
			for range 2 {
				for aggregate, tx := range map[string]writer.Tx{"undone": undone, "kept": kept} {
					var events []*writer.Event
					for range n {
						events = append(events, &writer.Event{AggregateType: "Order", AggregateID: aggregate, Type: "OrderPlaced", Tombstone: true})
					}
					err = errors.Join(err, w.Append(t.Context(), tx, events...))
				}
			}
			if err := errors.Join(err, undone.Rollback(), kept.Commit()); err != nil {
				t.Fatal(err)
			}
			late := &writer.Event{AggregateType: "Order", AggregateID: "undone", Type: "OrderPlaced", Tombstone: true}
			if err := errors.Join(undone.Commit(), undone.Rollback(), w.Append(t.Context(), undone, late)); err == nil || strings.Count(err.Error(), "already been") != 3 {
				t.Errorf("error %v", err)
			}
			writertest.RequireNotAppended(t, w, &r, writertest.Match{AggregateID: "undone"})
			writertest.RequireAppendedInOrder(t, w, &r, slices.Repeat([]writertest.Match{{AggregateID: "kept"}}, 2*n)...)
		}
	}
}

// serialization is a failure after which Run tries again.
type serialization struct{ error }

func (serialization) SQLState() string { return "40001" }

// A test decides what statements do, and whether a commit fails.
func TestRecorderAnswers(t *testing.T) {
	commits := 0
	r := writertest.Recorder{Answer: func(statement string) (int64, error) {
		if commits += strings.Count(statement, "COMMIT"); statement == "COMMIT" && commits == 1 {
			return 0, serialization{errors.New("conflict")}
		}
		return int64(strings.Count(statement, "x")), nil
	}}
	w, err := writer.New(writer.Postgres, r.Option())
	if err != nil {
		t.Fatal(err)
	}
	var changed []int64
	err = writer.Run(t.Context(), writer.SQL(r.DB(t), writer.Postgres), w, func(ctx context.Context, tx *sql.Tx, u *writer.Unit) error {
		u.Add(&writer.Event{AggregateType: "Order", AggregateID: "1", Type: "OrderSent", Tombstone: true})
		result, err := tx.ExecContext(ctx, "xx")
		if err == nil {
			n, _ := result.RowsAffected()
			changed = append(changed, n)
		}
		return err
	})
	if err != nil || !slices.Equal(changed, []int64{2, 2}) {
		t.Errorf("%d rows changed, error %v", changed, err)
	}
	writertest.RequireAppended(t, w, &r, writertest.Match{Type: "OrderSent"})
}

// A service with Run needs no database: what it commits is recorded, and what it rolls back is not.
func TestRecorderServesRun(t *testing.T) {
	for _, d := range []writer.Dialect{writer.Postgres, writer.MySQL} {
		var r writertest.Recorder
		w, err := writer.New(d, r.Option())
		if err != nil {
			t.Fatal(err)
		}
		refused := errors.New("refused")
		for id, result := range map[string]error{"kept": nil, "undone": refused} {
			err := writer.Run(t.Context(), writer.SQL(r.DB(t), d), w, func(ctx context.Context, tx *sql.Tx, u *writer.Unit) error {
				u.Add(&writer.Event{AggregateType: "Order", AggregateID: id, Type: "OrderSent", Tombstone: true})
				changed, err := tx.ExecContext(ctx, "UPDATE orders SET sent = true WHERE id = ?", id)
				if err != nil {
					return err
				}
				n, _ := changed.RowsAffected()
				if err := tx.QueryRowContext(ctx, "SELECT 1").Scan(new(int)); n != 1 || !errors.Is(err, sql.ErrNoRows) {
					t.Errorf("%d rows, a query: %v", n, err)
				}
				return errors.Join(w.Flush(ctx, tx, u), result)
			})
			if !errors.Is(err, result) {
				t.Errorf("error %v", err)
			}
		}
		if e := writertest.RequireAppended(t, w, &r, writertest.Match{Type: "OrderSent"}); e.AggregateID != "kept" {
			t.Errorf("event %+v", e)
		}
	}
	var r writertest.Recorder
	db := r.DB(t)
	if _, err := db.PrepareContext(t.Context(), "SELECT 1"); err == nil || //nolint:sqlclosecheck // there is none
		!strings.Contains(err.Error(), "use a database") {
		t.Errorf("error %v", err)
	}
}

package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

// callers is how many calls with one message or key there are at once.
const callers = 64

// once does the work of one ID, and reports whether it was done before.
type once func(ctx context.Context, id string, work func(ctx context.Context, tx execer) error) (repeat bool, err error)

// The first call commits or rolls back; of all others one or none does the work, at each isolation level.
func TestConcurrentRepeats(t *testing.T) {
	onEachWay(t, func(t *testing.T, db *database, w way) {
		concurrentCalls(t, db, func(level sql.IsolationLevel) once {
			in := w.open(t, level).inbox(t, w.name)
			return func(ctx context.Context, id string, work func(context.Context, execer) error) (bool, error) {
				return in.handle(ctx, message(id), work)
			}
		})
	})
}

func concurrentCalls(t *testing.T, db *database, open func(sql.IsolationLevel) once) {
	t.Helper()
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		call := open(level)
		for end, first := range map[string]error{"the first commits": nil, "the first rolls back": errors.New("refused")} {
			id := level.String() + ", " + end
			ctx, cancel := context.WithTimeout(t.Context(), cdctest.Patience(2*time.Minute))
			started, answers, release := make(chan struct{}, callers), make(chan answer, callers), make(chan struct{})
			ask := func(work func(context.Context, execer) error) {
				repeat, err := call(ctx, id, work)
				answers <- answer{repeat, err}
			}
			go ask(func(ctx context.Context, tx execer) error {
				select {
				case started <- struct{}{}:
				default: // the transaction was run again
				}
				<-release
				return errors.Join(first, add(message(id))(ctx, tx))
			})
			receive(ctx, t, started)
			for range callers - 1 {
				go func() {
					started <- struct{}{}
					ask(add(message(id)))
				}()
			}
			for range callers - 1 {
				receive(ctx, t, started)
			}
			begun := time.Now()
			close(release)
			repeats, failed := 0, 0
			for range callers {
				switch a := receive(ctx, t, answers); {
				case a.repeat:
					repeats++
				case first != nil && errors.Is(a.err, first):
					failed++
				case a.err != nil:
					t.Errorf("%s: %v", id, a.err)
				}
			}
			t.Logf("%s: all answered after %v", id, time.Since(begun).Round(time.Millisecond))
			cancel()
			wantFailed := map[bool]int{true: 1}[first != nil]
			if n := db.count(t, "effects WHERE message = '"+id+"'"); n != 1 || failed != wantFailed || repeats != callers-1-failed {
				cdctest.Violation(t, kindOf(n), "%s: %d effects, %d failed, %d repeats", id, n, failed, repeats)
			}
		}
	}
	db.exec(t, "DELETE FROM effects")
}

// receive fails the test when ctx ends.
func receive[T any](ctx context.Context, t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
	return v
}

// kindOf names what is wrong with the number of a message's effects.
func kindOf(effects int) cdctest.Kind {
	if effects < 1 {
		return cdctest.Lost
	}
	return cdctest.Duplicates
}

type answer struct {
	repeat bool
	err    error
}

func TestOnceInTheCallersTransaction(t *testing.T) {
	onEachWay(t, func(t *testing.T, _ *database, w way) {
		in := w.open(t, sql.LevelDefault).inbox(t, w.name)
		m := message("1")
		for _, step := range []struct {
			end   string
			first bool
		}{{"rollback", true}, {"commit", true}, {"commit", false}} {
			tx := in.begin(t)
			first, err := tx.once(m)
			if err != nil || first != step.first {
				t.Fatalf("%s: first %v, error %v", step.end, first, err)
			}
			if again, err := tx.once(m); err != nil || again {
				t.Fatalf("again in the transaction: first %v, error %v", again, err)
			}
			testenv.Must(t, map[string]func() error{"commit": tx.commit, "rollback": tx.rollback}[step.end]())
			if _, err := tx.once(m); !errors.Is(err, sql.ErrTxDone) || !strings.Contains(err.Error(), "use the transaction before it is committed") {
				t.Errorf("after the end: %v", err)
			}
		}
		tx := in.begin(t)
		n, err := tx.forget(inbox.MessageID{Source: m.Source, ID: m.ID}, inbox.MessageID{Source: m.Source, ID: "never seen"})
		if err != nil || n != 1 {
			t.Fatalf("forgot %d, error %v", n, err)
		}
		testenv.Must(t, tx.commit())
		if repeat, err := in.handle(t.Context(), m, func(context.Context, execer) error { return nil }); repeat || err != nil {
			t.Errorf("after it was forgotten: repeat %v, error %v", repeat, err)
		}
	})
}

// Different names are different rows: keys are bytes, without collation, padding and truncation.
func TestKeysAreBytes(t *testing.T) {
	names := []string{"a", "A", "a ", " a", "á", "ä", "a\t", "ａ", "ß", "ss", `\`, `'`, `"`, `{"a",b}`, "$1", "?", "%s", "\U0001F600", strings.Repeat("x", inbox.MaxConsumer), strings.Repeat("x", inbox.MaxConsumer-1)}
	onEachWay(t, func(t *testing.T, db *database, w way) {
		db.exec(t, "DELETE FROM inbox")
		access := w.open(t, sql.LevelDefault)
		want := 0
		for _, consumer := range names {
			in := access.inbox(t, consumer)
			var ms []*inbox.Message
			for _, n := range names {
				ms = append(ms, &inbox.Message{Source: "s", ID: n}, &inbox.Message{Source: n, ID: "i"})
			}
			for _, m := range ms[:4] {
				if repeat, err := in.handle(t.Context(), m, func(context.Context, execer) error { return nil }); repeat || err != nil {
					t.Fatalf("%q %q %q: repeat %v, error %v", consumer, m.Source, m.ID, repeat, err)
				}
			}
			repeats, err := in.handleBatch(t.Context(), ms, func(_ context.Context, _ execer, _ *writer.Unit, first []*inbox.Message) error {
				if !slices.Equal(first, ms[4:]) {
					t.Errorf("%q: %d of %d are new", consumer, len(first), len(ms))
				}
				return nil
			})
			if err != nil || !slices.Equal(repeats, ms[:4]) {
				t.Fatalf("%q: %d repeats, error %v", consumer, len(repeats), err)
			}
			if want += len(ms); db.count(t, "inbox") != want {
				t.Fatalf("%q: %d rows instead of %d", consumer, db.count(t, "inbox"), want)
			}
		}
	})
}

// A batch hands new messages over once, and one that fails leaves nothing.
func TestBatch(t *testing.T) {
	onEachWay(t, func(t *testing.T, db *database, w way) {
		db.exec(t, "DELETE FROM effects")
		in := w.open(t, sql.LevelDefault).inbox(t, w.name)
		refused := errors.New("refused")
		var seen []string
		work := func(ctx context.Context, tx execer, _ *writer.Unit, ms []*inbox.Message) error {
			for _, m := range ms {
				if err := add(m)(ctx, tx); err != nil {
					return err
				}
				if m.ID == "bad" {
					return refused
				}
			}
			seen = append(seen, ids(ms)...)
			return nil
		}
		for _, step := range []struct {
			in, seen []string
			repeats  int
			err      error
		}{
			{in: nil},
			{in: []string{"3", "1", "3", "2"}, seen: []string{"3", "1", "2"}, repeats: 1},
			{in: []string{"4", "1", "0"}, seen: []string{"4", "0"}, repeats: 1},
			{in: []string{"1", "2"}, repeats: 2},
			{in: []string{"1", "5", "bad", "6"}, err: refused},
			{in: []string{"6", "", "7"}, err: inbox.ErrInvalidMessage},
			{in: []string{"5", "6"}, seen: []string{"5", "6"}},
		} {
			seen = nil
			var ms []*inbox.Message
			for _, id := range step.in {
				ms = append(ms, message(id))
			}
			repeats, err := in.handleBatch(t.Context(), ms, work)
			if len(repeats) != step.repeats || !errors.Is(err, step.err) || (err != nil) != (step.err != nil) || !slices.Equal(seen, step.seen) {
				t.Errorf("%v: handed over %v, %d repeats, error %v", step.in, seen, len(repeats), err)
			}
		}
		seen = nil
		same := message("8")
		if repeats, err := in.handleBatch(t.Context(), []*inbox.Message{same, same}, work); len(repeats) != 1 || err != nil || !slices.Equal(seen, []string{"8"}) {
			t.Errorf("the same message twice: handed over %v, error %v", seen, err)
		}
		if n := db.count(t, "effects"); n != 8 {
			t.Errorf("%d effects", n)
		}
	})
}

// A batch may be larger than a statement, which MariaDB limits to 16 MiB.
func TestLargeBatch(t *testing.T) {
	db := newDatabase(t, servers[2])
	in := db.ways()[0].open(t, sql.LevelDefault).inbox(t, strings.Repeat("c", inbox.MaxConsumer))
	var ms []*inbox.Message
	for i := range 9_500 {
		ms = append(ms, &inbox.Message{Source: strings.Repeat("s", inbox.MaxSource), ID: fmt.Sprintf("%0*d", inbox.MaxID, i)})
	}
	if _, err := in.handle(t.Context(), ms[5], func(context.Context, execer) error { return nil }); err != nil {
		t.Fatal(err)
	}
	first := 0
	repeats, err := in.handleBatch(t.Context(), ms, func(_ context.Context, _ execer, _ *writer.Unit, ms []*inbox.Message) error {
		first = len(ms)
		return nil
	})
	if first != len(ms)-1 || len(repeats) != 1 || err != nil || db.count(t, "inbox") != len(ms) {
		t.Errorf("%d handed over, error %v", first, err)
	}
}

func ids(ms []*inbox.Message) (all []string) {
	for _, m := range ms {
		all = append(all, m.ID)
	}
	return all
}

// Batches with the same messages in different orders do not end in a deadlock that the caller sees.
func TestBatchesAtTheSameTime(t *testing.T) {
	onEachWay(t, func(t *testing.T, db *database, w way) {
		db.exec(t, "DELETE FROM effects")
		in := w.open(t, sql.LevelDefault).inbox(t, w.name)
		var forwards []*inbox.Message
		for i := range 50 {
			forwards = append(forwards, message(fmt.Sprintf("%02d", i)))
		}
		backwards := slices.Clone(forwards)
		slices.Reverse(backwards)
		errs := make(chan error)
		for i := range 8 {
			go func() {
				_, err := in.handleBatch(t.Context(), [][]*inbox.Message{forwards, backwards}[i%2], func(ctx context.Context, tx execer, _ *writer.Unit, ms []*inbox.Message) error {
					for _, m := range ms {
						if err := add(m)(ctx, tx); err != nil {
							return err
						}
					}
					return nil
				})
				errs <- err
			}()
		}
		for range 8 {
			testenv.Must(t, <-errs)
		}
		if n := db.count(t, "effects"); n != len(forwards) {
			cdctest.Violation(t, kindOf(n-len(forwards)+1), "%d effects of %d messages", n, len(forwards))
		}
	})
}

func TestPurge(t *testing.T) {
	onEachWay(t, func(t *testing.T, db *database, w way) {
		db.exec(t, "DELETE FROM inbox")
		access := w.open(t, sql.LevelDefault)
		in, other := access.inbox(t, "purged"), access.inbox(t, "other")
		nothing := func(context.Context, execer, *writer.Unit, []*inbox.Message) error { return nil }
		var ms []*inbox.Message
		for i := range 25 {
			ms = append(ms, message(string(rune('a'+i))))
		}
		for _, each := range []handler{in, other} {
			_, err := each.handleBatch(t.Context(), ms, nothing)
			testenv.Must(t, err)
		}
		db.exec(t, "UPDATE inbox SET handled_at = "+db.hourBefore("handled_at")+" WHERE message_id < 'k'")
		n, err := in.Purge(t.Context(), time.Now().Add(-30*time.Minute), 4)
		if left := db.count(t, "inbox"); err != nil || n != 10 || left != 40 {
			t.Errorf("deleted %d, left %d, error %v", n, left, err)
		}
		db.exec(t, "UPDATE inbox SET handled_at = "+map[bool]string{true: "FROM_UNIXTIME(1700000000.123456)", false: "to_timestamp(1700000000) + interval '123456 microseconds'"}[db.my != nil])
		for after, want := range []int64{0, 15} {
			if n, err := in.Purge(t.Context(), time.Unix(1700000000, 0).Add(time.Duration(123456+after)*time.Microsecond), 100); n != want || err != nil {
				t.Errorf("%d µs after it: deleted %d, error %v", after, n, err)
			}
		}
		if n, err := in.Purge(t.Context(), time.Now(), 0); n != 0 || err == nil {
			t.Errorf("batches of 0: deleted %d, error %v", n, err)
		}
	})
}

// What cannot be recorded is refused before the first statement.
func TestInvalidMessages(t *testing.T) {
	in := typed[*sql.Tx]{writer.SQL(new(sql.DB), writer.Postgres)}.inbox(t, "c")
	for reason, m := range map[string]*inbox.Message{
		"ID is empty":                          {Source: "s"},
		"source is empty":                      {ID: "i"},
		"ID has 256 bytes, the limit is 255":   message(strings.Repeat("x", inbox.MaxID+1)),
		"source has 513 bytes, the limit is 5": {Source: strings.Repeat("x", inbox.MaxSource+1), ID: "i"},
		"ID has a NUL byte":                    message("a\x00b"),
		"ID is not UTF-8":                      message("a\xff"),
	} {
		m.Topic, m.Partition, m.Offset = "orders", 2, 7
		_, err := in.handle(t.Context(), m, nil)
		var invalid *inbox.InvalidError
		if !errors.As(err, &invalid) || invalid.Fix == "" || !errors.Is(err, inbox.ErrInvalidMessage) || !strings.Contains(err.Error(), "record orders[2]@7: "+reason) {
			t.Errorf("%s: %v", reason, err)
		}
	}
	var none *sql.Tx
	known, err := inbox.New(writer.SQL(new(sql.DB), writer.MySQL), "c", inbox.WithSource(func(*inbox.Message) string { return "known" }))
	testenv.Must(t, err)
	if _, err := known.Once(t.Context(), none, &inbox.Message{ID: "1"}); !errors.Is(err, writer.ErrNoTransaction) {
		t.Errorf("nil transaction: %v", err)
	}
	for name, opts := range map[string][]inbox.Option{"": nil, strings.Repeat("c", inbox.MaxConsumer+1): nil, "c": {inbox.WithTable("a.b.c.d")}, "d": {inbox.WithSource(nil)}} {
		if _, err := inbox.New(writer.SQL(new(sql.DB), writer.MySQL), name, opts...); err == nil {
			t.Errorf("New(%q) succeeds", name)
		}
	}
}

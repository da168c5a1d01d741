package cleanup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
)

// outbox is a table whose rows are "new" until they are marked, and what the relay knows of it.
type outbox struct {
	cdc.RowAction

	mu sync.Mutex // of all

	rows    map[string]string
	order   []string       // of the rows, as they were inserted
	written int            // rows, and the position behind them
	at      map[string]int // where a row is
	locked  map[string]bool
	refused map[string]bool // no row can be marked together with such a one
	undone  bool            // the next position is never reached
	saved   cdc.Checkpoint
	done    int // the saved position
	err     error
	unread  error // the next read fails
	events  deadletter.Events
	reads   int
	marks   int
}

func (o *outbox) insert(ids ...string) {
	for _, id := range ids {
		o.written++
		o.rows[id], o.at[id] = "new", o.written
		o.order = append(o.order, id)
	}
}

func (o *outbox) Verify(context.Context) error { return o.err }

func (o *outbox) Due(_ context.Context, limit int) (keys []cdc.RowKey, _ cdc.Position, _ error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reads++
	if o.unread != nil {
		return nil, "", o.unread
	}
	for _, id := range o.order {
		if o.rows[id] == "new" && len(keys) < limit {
			keys = append(keys, cdc.RowKey{ID: id, Value: id})
		}
	}
	if o.undone {
		o.undone = false
		return keys, "undone", nil
	}
	return keys, cdc.Position(fmt.Sprint(o.written)), nil
}

func (o *outbox) Passed(_ context.Context, behind cdc.Position) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, err := strconv.Atoi(string(behind))
	return err == nil && o.done >= at, nil // it is never behind "undone"
}

func (o *outbox) Act(_ context.Context, keys []cdc.RowKey, dead bool) (n int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.marks++
	for _, k := range keys {
		if o.refused[k.ID] {
			return 0, fmt.Errorf("row %s breaks a constraint", k.ID)
		}
	}
	for _, k := range keys {
		if o.locked[k.ID] || o.rows[k.ID] != "new" {
			continue
		}
		if o.at[k.ID] > o.done {
			return n, fmt.Errorf("row %s is marked and not published", k.ID)
		}
		o.rows[k.ID] = map[bool]string{false: "sent", true: "dead"}[dead]
		n++
	}
	return n, nil
}

func (o *outbox) Saved() cdc.Checkpoint { return o.saved }
func (o *outbox) Settle(name string)    { o.saved.Settled = name }

func (o *outbox) letters(string) deadletter.Events {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.events)
}

// later changes it once marks have begun.
func (o *outbox) later(d time.Duration, change func()) {
	time.AfterFunc(d, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		change()
	})
}

func newOutbox() *outbox {
	return &outbox{RowAction: cdc.RowAction{Table: "public.jobs", Condition: "c"}, rows: map[string]string{}, at: map[string]int{}, locked: map[string]bool{}, refused: map[string]bool{}}
}

// runs has marks run for a time, and returns what it reports.
func (o *outbox) runs(t *testing.T, d time.Duration, onDeadLetter bool, others ...Rows) string {
	t.Helper()
	problems := new(cdc.Problems)
	if onDeadLetter {
		o.OnDeadLetter = []cdc.Assignment{{Column: "status", Value: "dead"}}
	}
	m := NewMarks(MarkOptions{Letters: o.letters, Problems: problems}, func(context.Context, cdc.Loader) ([]Rows, func(), error) { return append(others, o), func() {}, nil }, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	m.Run(ctx, o)
	var text []string
	for _, p := range problems.List() {
		text = append(text, p.Err.Error())
	}
	return strings.Join(text, "\n")
}

func (o *outbox) want(t *testing.T, want string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	var got []string
	for _, id := range slices.Sorted(maps.Keys(o.rows)) {
		got = append(got, id+" "+o.rows[id])
	}
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("rows are %s, want %s", text, want)
	}
}

func TestRowsAreMarked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before       func(o *outbox) // the relay leads
		after        func(o *outbox) // 10 s later
		onDeadLetter bool
		want         string
		says         string
	}{
		"once the position has passed them": {
			before: func(o *outbox) { o.saved.Settled = "b c"; o.insert("1", "2") },
			after:  func(o *outbox) { o.done = 2; o.insert("3") },
			want:   "1 sent, 2 sent, 3 new",
		},
		"not those that are unproven": {
			before: func(o *outbox) { o.saved.Settled = "b"; o.insert("1", "2") },
			after:  func(o *outbox) { o.insert("3"); o.done = 3 },
			want:   "1 new, 2 new, 3 sent",
			says:   "published rows not marked: table public.jobs: 2 rows left as found, that of event 1 among them: pending when this relay began to lead, and nothing tells whether they were published",
		},
		"all, once somebody has marked the unproven ones": {
			before: func(o *outbox) { o.insert("1") },
			after:  func(o *outbox) { o.rows["1"] = "done"; o.insert("2"); o.done = 2 },
			want:   "1 done, 2 sent",
		},
		"not those of dead letters": {
			before: func(o *outbox) { o.events = deadletter.Events{"1": {}} },
			after:  func(o *outbox) { o.insert("1", "2"); o.done = 2 },
			want:   "1 new, 2 sent",
		},
		"not those that became dead letters after they were read": {
			before: func(o *outbox) { o.saved.Settled = "c"; o.insert("1", "2") },
			after:  func(o *outbox) { o.events = deadletter.Events{"1": {}}; o.done = 2 },
			want:   "1 new, 2 sent",
		},
		"those of dead letters as such": {
			before:       func(o *outbox) { o.events = deadletter.Events{"1": {}, strings.Repeat("x", 200): {}} },
			after:        func(o *outbox) { o.insert("1", "2", strings.Repeat("x", 201)); o.done = 3 },
			onDeadLetter: true,
			want:         "1 dead, 2 sent, " + strings.Repeat("x", 201) + " dead",
		},
		"not those that are locked": {
			before: func(o *outbox) { o.locked["2"] = true },
			after:  func(o *outbox) { o.insert("1", "2"); o.done = 2 },
			want:   "1 sent, 2 new",
		},
		"but for the one that cannot be": {
			before: func(o *outbox) { o.refused["2"] = true },
			after:  func(o *outbox) { o.insert("1", "2", "3", "4"); o.done = 4 },
			want:   "1 sent, 2 new, 3 sent, 4 sent",
			says:   "published rows not marked: 1 row, that of event 2 among them: row 2 breaks a constraint",
		},
		"although a transaction that was waited for was rolled back": {
			before: func(o *outbox) { o.saved.Settled = "c"; o.insert("1"); o.undone = true },
			after:  func(o *outbox) { o.done = 1 },
			want:   "1 sent",
		},
		"not where they cannot be": {
			before: func(o *outbox) { o.err = errors.New("no index") },
			after:  func(o *outbox) { o.insert("1"); o.done = 1 },
			want:   "1 new",
			says:   "published rows not marked: no index",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := newOutbox()
				c.before(o)
				o.later(10*time.Second, func() { c.after(o) })
				if says := o.runs(t, 2*time.Minute, c.onDeadLetter); says != c.says {
					t.Errorf("it says %q, want %q", says, c.says)
				}
				o.want(t, c.want)
			})
		})
	}
}

// What is wrong with one table does not keep the rows of another from being marked.
func TestTablesDoNotHoldUpEachOther(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		verify, read, mark bool
		says               string
	}{
		"one cannot be marked": {verify: true, says: "published rows not marked: no index"},
		"one cannot be read":   {read: true, says: "published rows not marked: bad cast"},
		"one's rows cannot be": {mark: true, says: "published rows not marked: 1 row, that of event 1 among them: row 1 breaks a constraint"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, broken := newOutbox(), newOutbox()
				broken.Table = "public.other"
				if c.verify {
					broken.err = errors.New("no index")
				}
				if c.read {
					broken.unread = errors.New("bad cast")
				}
				broken.refused["1"] = c.mark
				for _, o := range []*outbox{o, broken} {
					o.later(10*time.Second, func() { o.insert("1"); o.done = 1 })
				}
				if says := o.runs(t, time.Minute, false, broken); says != c.says {
					t.Errorf("it says %q, want %q", says, c.says)
				}
				o.want(t, "1 sent")
				broken.want(t, "1 new")
			})
		})
	}
}

// Of too many unproven rows none can be told from others, so that no row is marked until there are fewer.
func TestTooManyUnproven(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox()
		for i := range maxUnproven + 1 {
			o.insert(fmt.Sprint(i))
		}
		o.done = o.written
		if says := o.runs(t, 2*time.Second, false); says != "published rows not marked: table public.jobs: no row is marked: more than 100000 were pending when this relay began to lead, and nothing tells whether they were published" {
			t.Error(says)
		}
		for i := range maxUnproven + 1 {
			o.rows[fmt.Sprint(i)] = "done"
		}
		if says := o.runs(t, 2*time.Second, false); says != "" || o.saved.Settled != "c" {
			t.Errorf("%s, settled %q", says, o.saved.Settled)
		}
	})
}

// More rows than one read takes are marked at once, beside those that are to stay.
func TestManyRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox()
		o.events = deadletter.Events{}
		for i := range marksRead {
			o.insert(fmt.Sprintf("a%05d", i))
		}
		o.later(1500*time.Millisecond, func() {
			for i := range 3 * marksRead {
				o.insert(fmt.Sprintf("b%05d", i))
				if i < marksRead+5 { // they come first in every read
					o.events[fmt.Sprintf("b%05d", i)] = struct{}{}
				}
			}
			o.done = o.written
		})
		o.runs(t, 20*time.Second, false)
		o.mu.Lock()
		defer o.mu.Unlock()
		counts := map[string]int{}
		for id, state := range o.rows {
			counts[id[:1]+" "+state]++
		}
		if o.reads > 50 {
			t.Errorf("%d reads in 20 s", o.reads)
		}
		if want := map[string]int{"a new": marksRead, "b new": marksRead + 5, "b sent": 2*marksRead - 5}; !maps.Equal(counts, want) {
			t.Errorf("rows are %v, want %v", counts, want)
		}
	})
}

// A relay that lags behind its writers by minutes has its rows marked all the same, that much later.
func TestRowsOfALaggingRelayAreMarked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox()
		o.saved.Settled = "c"
		const rows, lag = 20, 5 * time.Minute
		var want []string
		for i := range rows {
			id := fmt.Sprintf("%02d", i)
			want = append(want, id+" sent")
			o.later(time.Duration(i)*30*time.Second, func() { o.insert(id) })
			o.later(time.Duration(i)*30*time.Second+lag, func() { o.done = i + 1 })
		}
		o.runs(t, rows*30*time.Second+2*lag, false)
		o.want(t, strings.Join(want, ", "))
	})
}

// Where the database refuses every row, it is not asked again and again.
func TestRefusedRowsAreLeftForAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox()
		o.saved.Settled = "c"
		for i := range 1000 {
			id := fmt.Sprint(i)
			o.insert(id)
			o.refused[id] = true
		}
		o.done = o.written
		o.runs(t, 50*time.Second, false)
		if o.marks > 2*maxFailures {
			t.Errorf("%d transactions in 50 s", o.marks)
		}
	})
}

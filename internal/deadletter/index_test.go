package deadletter_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
)

// panics is told of a change of a letter's state that is a mistake.
func panics(from, to fmt.Stringer) { panic(fmt.Sprintf("a letter moves from %s to %s", from, to)) }

// modelled is a letter of the plain list that an index is compared with.
type modelled struct {
	id, key         string
	order           deadletter.Order
	blocked, stored bool
}

// An index answers as a plain list of letters does, whatever became letters and was resolved in which order.
func TestIndexAgainstAList(t *testing.T) {
	table := &cdc.Table{Schema: "a", Name: "b"}
	rapid.Check(t, func(t *rapid.T) {
		x := deadletter.NewIndex(deadletter.Options{HoldKey: true, MaxLetters: 8}, panics, nil, nil)
		var list []modelled
		at := func(id string) int { return slices.IndexFunc(list, func(m modelled) bool { return m.id == id }) }
		for seq := range rapid.IntRange(1, 40).Draw(t, "steps") {
			stored := slices.Collect(func(yield func(string) bool) {
				for _, m := range list {
					if m.stored && !yield(m.id) {
						return
					}
				}
			})
			switch {
			case len(stored) > 0 && rapid.Bool().Draw(t, "resolve"):
				id := rapid.SampledFrom(stored).Draw(t, "which")
				m := list[at(id)]
				first := !slices.ContainsFunc(list, func(o modelled) bool { return m.key != "" && o.key == m.key && o.order.Compare(m.order) < 0 })
				drop := rapid.Bool().Draw(t, "drop")
				if began := x.Begin(id, drop); began != (first || drop) {
					t.Fatalf("%s began %v, is first %v, dropped %v", id, began, first, drop)
				} else if !began {
					continue
				}
				if !drop && rapid.Bool().Draw(t, "fails") {
					x.Failed(id, "rejected", time.Now(), 1)
					list[at(id)].blocked = true
				} else {
					x.Resolved(id)
					list = slices.Delete(list, at(id), at(id)+1)
				}
			default:
				e := deadletter.Entry{
					Table: table.String(), Key: rapid.SampledFrom([]string{"", "k", "l", "m"}).Draw(t, "key"), Reason: rapid.SampledFrom([]string{deadletter.Held, "rejected"}).Draw(t, "reason"),
					Order: x.Order(uint64(rapid.IntRange(0, 9).Draw(t, "seq")), int32(seq)),
				}
				m := modelled{fmt.Sprint(seq), e.Key, e.Order, e.Blocked(), rapid.Bool().Draw(t, "stored")}
				x.Add(m.id, &e)
				if m.stored {
					x.Stored(m.id)
				}
				list = append(list, m)
			}
			compare(t, x, table, list)
		}
	})
}

func compare(t *rapid.T, x *deadletter.Index, table *cdc.Table, list []modelled) {
	keys, held := map[string]bool{}, 0
	for _, m := range list {
		if m.key != "" {
			keys[m.key] = true
		}
		if !m.blocked {
			held++
		}
	}
	if s := x.Summary(); s.Events != len(list) || s.Keys != len(keys) || s.Held != held || s.Full != (len(list) >= 8) || s.Full != x.Full() {
		t.Fatalf("summary %+v of %+v", s, list)
	}
	for _, key := range []string{"", "k", "l", "m"} {
		name := deadletter.HoldName(table, []byte(key))
		if x.Holds([]byte(name)) != keys[key] {
			t.Fatalf("key %q is held: %v", key, x.Holds([]byte(name)))
		}
		o := x.Order(5, 0)
		want := key != "" && slices.ContainsFunc(list, func(m modelled) bool { return m.key == key && m.order.Compare(o) < 0 })
		if got := x.Precedes(name, o, false); got != want {
			t.Fatalf("a letter of %q precedes: %v", key, got)
		}
	}
	work, _ := x.Retryable(100, func(w *deadletter.Work) bool { return !w.Blocked })
	var got, want []string
	for i := range work {
		got = append(got, work[i].ID)
	}
	ordered := slices.SortedFunc(slices.Values(list), func(a, b modelled) int { return cmp.Or(cmp.Compare(a.key, b.key), a.order.Compare(b.order)) })
	stuck := map[string]bool{}
	for _, m := range ordered {
		if m.key != "" && stuck[m.key] {
			continue
		}
		if m.blocked || !m.stored {
			stuck[m.key] = m.key != ""
			continue
		}
		want = append(want, m.id)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("may go: %q, want %q of %+v", got, want, list)
	}
}

// A round has a bounded number of letters, and of a key the first ones, at most half of the round. A key is whole if nothing of it is
// left out. Letters that a start has read are in their order, whatever the order in which they were read.
func TestRoundsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries, count := map[string]*deadletter.Entry{}, map[string]int{}
		for seq := range rapid.IntRange(0, 60).Draw(t, "letters") {
			e := &deadletter.Entry{
				Table: "a.b", Key: rapid.SampledFrom([]string{"", "k", "l", "m"}).Draw(t, "key"), Reason: rapid.SampledFrom([]string{deadletter.Held, "rejected"}).Draw(t, "reason"),
				Order: deadletter.Order{Epoch: 1, Seq: uint64(seq)},
			}
			entries[fmt.Sprint(seq)] = e
			count[e.HoldName()]++
		}
		x := deadletter.NewIndex(deadletter.Options{HoldKey: true, MaxLetters: 99}, panics, entries, func(string) bool { return true })
		wanted := func(*deadletter.Work) bool { return true }
		most := rapid.IntRange(2, 40).Draw(t, "most")
		work, whole := x.Retryable(most, wanted)
		have := map[string][]deadletter.Work{}
		for i := range work {
			have[work[i].Hold] = append(have[work[i].Hold], work[i])
		}
		if len(work) > most || len(work) < min(len(entries), most/2) {
			t.Fatalf("%d letters of %d in a round of %d", len(work), len(entries), most)
		}
		if n := len(have[""]); n < min(count[""], most/4) {
			t.Fatalf("%d letters without a key in a round of %d; there are %d", n, most, count[""])
		}
		for hold, letters := range have {
			if hold == "" {
				continue
			}
			if len(letters) > most/2 {
				t.Fatalf("%d letters of a key in a round of %d", len(letters), most)
			}
			all, complete := x.RetryableOf([]string{hold}, wanted)
			if len(all) != count[hold] || !slices.Equal(letters, all[:len(letters)]) || !slices.IsSortedFunc(all, func(a, b deadletter.Work) int { return a.Order.Compare(b.Order) }) {
				t.Fatalf("letters of %q: %+v of %+v", hold, letters, all)
			}
			healthy := !slices.ContainsFunc(all, func(w deadletter.Work) bool { return w.Blocked })
			if slices.Contains(whole, hold) != (healthy && len(letters) == len(all)) || (len(complete) == 1) != healthy {
				t.Fatalf("%q: whole %v, %v; %d of %d letters", hold, whole, complete, len(letters), len(all))
			}
		}
	})
}

// Letters of an earlier run whose row comes again cannot be resolved before; the others can. So there is room for these rows.
func TestUnmetLetters(t *testing.T) {
	entries := map[string]*deadletter.Entry{
		"a@1/0": {Place: "1/0", Reason: "rejected", Order: deadletter.Order{Epoch: 4}},
		"b@2/0": {Place: "2/0", Reason: "rejected", Order: deadletter.Order{Epoch: 4, Seq: 1}},
		"c@3/0": {Done: deadletter.Published},
	}
	x := deadletter.NewIndex(deadletter.Options{HoldKey: true, MaxLetters: 2}, panics, entries, func(place string) bool { return place == "1/0" })
	id := func(id string) func() string { return func() string { return id } }
	met := func(name string) bool {
		e, _ := x.Met(id(name))
		return e != nil
	}
	if x.Summary().Events != 2 || met("a@1/0") || !met("b@2/0") || x.Order(1, 0).Epoch != 5 {
		t.Fatalf("%d letters, met %v, %v", x.Summary().Events, met("a@1/0"), met("b@2/0"))
	}
	if !x.Begin("a@1/0", false) || x.Begin("b@2/0", false) || x.Full() {
		t.Error("what is unmet was published, or what is not was not")
	}
	x.Pass(func(string) bool { return true })
	if !x.Begin("b@2/0", false) || !x.Full() {
		t.Error("it cannot be published although its row no longer comes")
	}
}

// A letter that is dropped is remembered until its row cannot come again, also over a start, and whatever it was before. One that was
// published is not.
func TestDroppedLettersAreRemembered(t *testing.T) {
	entries := map[string]*deadletter.Entry{
		"unmet@2/0":   {Place: "2/0", Reason: "rejected", Order: deadletter.Order{Epoch: 1}},
		"stored@1/0":  {Place: "1/0", Reason: "rejected", Order: deadletter.Order{Epoch: 1, Seq: 1}},
		"sent@2/1":    {Done: deadletter.Published},
		"dropped@2/2": {Done: deadletter.Dropped, Partition: 3},
		"gone@1/1":    {Done: deadletter.Dropped},
	}
	passed := func(up string) func(string) bool { return func(place string) bool { return place < up } }
	x := deadletter.NewIndex(deadletter.Options{HoldKey: true, MaxLetters: 9}, panics, entries, passed("2"))
	for _, id := range []string{"unmet@2/0", "stored@1/0"} {
		if !x.Begin(id, true) || x.Begin(id, true) || len(x.Gone(9, passed("1"))) > 0 {
			t.Errorf("%s was not dropped, or twice", id)
		}
		x.Resolved(id)
	}
	for id, want := range map[string]bool{"unmet@2/0": true, "stored@1/0": true, "dropped@2/2": true, "sent@2/1": false, "gone@1/1": false} {
		if _, dropped := x.Met(func() string { return id }); dropped != want || x.Remembers(id) != want {
			t.Errorf("%s is remembered: %v", id, dropped)
		}
	}
	if x.Summary().Events != 0 || !x.Any() {
		t.Errorf("%d letters, any %v", x.Summary().Events, x.Any())
	}
	gone := x.Gone(9, passed("2"))
	if x.Forget(gone); len(gone) != 1 || x.Remembers("stored@1/0") {
		t.Errorf("gone: %v", gone)
	}
	gone = x.Gone(1, passed("3"))
	if x.Forget(gone); len(gone) != 1 {
		t.Errorf("gone: %v", gone)
	}
	if gone = x.Gone(9, passed("3")); len(gone) != 1 || gone["dropped@2/2"] > 0 && gone["dropped@2/2"] != 3 {
		t.Errorf("gone: %v", gone)
	}
	if x.Forget(gone); x.Any() {
		t.Error("rows are still looked at")
	}
}

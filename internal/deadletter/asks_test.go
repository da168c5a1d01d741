package deadletter

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// panics is told of a change of a letter's state that is a mistake.
func panics(from, to fmt.Stringer) { panic(fmt.Sprintf("a letter moves from %s to %s", from, to)) }

// Two ask for opposite things at once: the letter is resolved once, and only who asked for what happened is told that it was done. A
// letter that cannot be published can still be dropped.
func TestOppositeAsks(t *testing.T) {
	both := func() asks {
		asked := asks{}
		for _, do := range []string{Retry, Drop} {
			asked.take(ask{id: do, asked: &Ask{Do: do, Letters: []string{"1", "2"}}})
		}
		return asked
	}
	empty := NewIndex(Options{HoldKey: true, MaxLetters: 9}, panics, nil, nil)
	for name, tt := range map[string]struct {
		after func(asks)
		want  map[string]string
	}{
		"dropped":        {func(s asks) { s.outcome(Drop, "1", resolved); s.review(empty, unwanted, nil) }, map[string]string{Retry: "done 0 0", Drop: "done 1 0"}},
		"published":      {func(s asks) { s.outcome(Retry, "1", resolved); s.review(empty, unwanted, nil) }, map[string]string{Retry: "done 1 0", Drop: "done 0 0"}},
		"in errors.skip": {func(s asks) { s.outcome(Retry, "1", skipped); s.review(empty, unwanted, nil) }, map[string]string{Retry: "done 0 0", Drop: "done 0 0"}},
		"not published": {
			func(s asks) { s.outcome(Retry, "1", failed); s.outcome(Retry, "2", failed) },
			map[string]string{Retry: "done 0 2", Drop: "accepted 0 0"},
		},
	} {
		asked := both()
		tt.after(asked)
		for do, want := range tt.want {
			p := asked[do]
			if have := fmt.Sprintf("%s %d %d", p.state(), p.done, p.failed); have != want || (p.skipped == 1) != (name == "in errors.skip" && do == Retry) {
				t.Errorf("%s: %s: %s and %d skipped, want %s", name, do, have, p.skipped, want)
			}
		}
	}
}

// A command of another version may ask for what this relay cannot do: it is told so, and does not wait.
func TestUnknownRequestIsRefused(t *testing.T) {
	for do, want := range map[string]string{"move": `done "it does not know the request \"move\""`, Drop: `accepted ""`} {
		asked := asks{}
		asked.take(ask{id: "a", asked: &Ask{Do: do, Letters: []string{"1"}}})
		if have := fmt.Sprintf("%s %q", asked["a"].state(), asked["a"].refused); have != want {
			t.Errorf("%s: %s, want %s", do, have, want)
		}
	}
}

func unwanted(*Work) bool { return false }

// A retry of letters that wait behind one which is blocked ends: they cannot be published.
func TestRetryBehindABlockedLetterEnds(t *testing.T) {
	entries := map[string]*Entry{}
	for i, reason := range []string{"unroutable", Held, "too_large"} {
		entries[strconv.Itoa(i)] = &Entry{Table: "a.b", Key: "k", Reason: reason, Order: Order{Seq: uint64(i)}}
	}
	for _, passed := range []bool{true, false} {
		behind := func(string) bool { return passed }
		x := NewIndex(Options{HoldKey: true, MaxLetters: 9}, panics, entries, behind)
		asked := asks{}
		asked.take(ask{id: "a", asked: &Ask{Do: Retry, Letters: []string{"1", "2"}}})
		asked.review(x, unwanted, func(string) string { return "" })
		p := asked["a"]
		if passed && (p.state() != Ended || p.failed != 2) || !passed && (p.state() != Accepted || !strings.Contains(p.waits, "restored or failed over without it, drop the dead letter with `cdc-relay dlq drop ID`")) {
			t.Errorf("rows passed %v: %+v", passed, p)
		}
		for _, do := range []string{Drop, Retry} { // the first one is dropped soon
			asked.take(ask{id: do, asked: &Ask{Do: do, Letters: []string{"0", "1"}}})
		}
		asked.review(x, unwanted, func(string) string { return "" })
		if p := asked[Retry]; p.state() != Accepted || p.failed > 0 {
			t.Errorf("rows passed %v, and the first letter is to be dropped: %+v", passed, p)
		}
	}
}

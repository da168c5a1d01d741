package dlq

import (
	"strconv"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/deadletter"
)

// A retry of letters that wait behind one which is blocked ends: they cannot be published.
func TestRetryBehindABlockedLetterEnds(t *testing.T) {
	entries := map[string]*deadletter.Entry{}
	for i, reason := range []string{"unroutable", deadletter.Held, "too_large"} {
		entries[strconv.Itoa(i)] = &deadletter.Entry{Table: "a.b", Key: "k", Reason: reason, Order: deadletter.Order{Seq: uint64(i)}}
	}
	for _, passed := range []bool{true, false} {
		behind := func(string) bool { return passed }
		x := deadletter.NewIndex(deadletter.Options{HoldKey: true, MaxKeys: 9, MaxLetters: 9}, entries, behind)
		asked := asks{}
		asked.take(ask{id: "a", asked: &deadletter.Ask{Do: deadletter.Retry, Letters: []string{"1", "2"}}})
		asked.review(x, behind)
		p := asked["a"]
		if passed && (p.state() != deadletter.Ended || p.failed != 2) || !passed && (p.state() != deadletter.Accepted || p.waits == "") {
			t.Errorf("rows passed %v: %+v", passed, p)
		}
	}
}

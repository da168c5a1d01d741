package publisher_test

import (
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// Keys are closed, and have new events. The letters of one are published: its events follow, and those of the other become letters
// where the commit would wait for them otherwise.
func TestClosedKeysDoNotHoldACommitUp(t *testing.T) {
	eachDelivery(t, func(t *testing.T, l *lettered) {
		l.restartWith(t, func(o *publisher.Options) { o.Timing.Closed = time.Hour })
		l.answered(t, l.send(t, fact{"a", "", "1"}, fact{"b", "", "1"}))
		testenv.Must(t, l.CloseKeys(t.Context(), []string{"public.outbox\x00a", "public.outbox\x00b"}))
		l.send(t, fact{"a", "t", "2"}, fact{"b", "t", "2"}, fact{"c", "t", "1"})
		l.resolve(t, "t", "a/1@0000000000000100/0")
		l.resolve(t, "t", "b/1@0000000000000100/1")
		testenv.Must(t, l.OpenKeys(t.Context(), []string{"public.outbox\x00a", "public.outbox\x00b"}))
		l.answered(t, l.send(t, fact{"c", "t", "2"}))
		if a, c := l.published(t, "a"), l.published(t, "c"); a != "1 2" || c != "1 2" {
			t.Errorf("published: %q, %q", a, c)
		}
		if l.exactlyOnce {
			l.resolve(t, "t", "b/2@0000000000000200/1")
		}
		if b := l.published(t, "b"); b != "1 2" {
			t.Errorf("published: %q", b)
		}
	})
}

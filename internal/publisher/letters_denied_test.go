package publisher_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
)

// Letters that are published again to a topic which may not be written stay, in whichever partitions they belong. Nothing else is
// concerned, and they are published once the topic may be written.
func TestDeniedLettersStay(t *testing.T) {
	eachDelivery(t, func(t *testing.T, l *lettered) {
		createTopic(t, l.cluster.ListenAddrs(), "denied", 3, nil)
		l.restartWith(t, func(o *publisher.Options) { o.Timing.Patience = time.Nanosecond }) // all partitions are in one request
		l.answered(t, l.send(t, fact{"a", "", "1"}, fact{"b", "", "1"}, fact{"c", "", "1"}, fact{"k0", "", "1"}, fact{"k1", "", "1"}, fact{"k2", "", "1"}, fact{"k3", "", "1"}))
		letters := l.letters(t)
		ids := slices.Sorted(maps.Keys(letters))
		denied := denyTopic(l, "denied")
		for range 2 {
			for _, out := range l.resolve(t, "denied", ids...) {
				if out.Err == nil || out.Reason != "topic" {
					t.Errorf("outcome: %+v", out)
				}
			}
			l.answered(t, l.send(t, fact{"f", "t", "1"}))
		}
		denied()
		for _, out := range l.resolve(t, "denied", ids...) {
			if out != (deadletter.Outcome{}) {
				t.Errorf("outcome: %+v", out)
			}
		}
		l.answered(t, l.send(t, fact{"f", "t", "1"}))
	})
}

// What stops the publisher before the first batch, here a clock that is hours ahead, ends the start.
func TestRefusedBeforeTheFirstBatch(t *testing.T) {
	eachDelivery(t, func(t *testing.T, l *lettered) {
		l.Kill()
		l.opts.Timing.Patience = time.Nanosecond
		l.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidTimestamp, Count: -1})
		p := unopened(t, l.opts)
		mustOpen(t, p)
		var err error
		if l.exactlyOnce {
			_, err = p.Commit(t.Context(), "barrier", nil)
		}
		if err == nil {
			_, err = p.LoadLetters(t.Context(), source(), func(string) bool { return true })
		}
		if stop, ok := errors.AsType[*cdc.StopError](err); !ok {
			t.Errorf("ended with %v (%v)", err, stop)
		}
	})
}

// restartWith is a restart with other options.
func (l *lettered) restartWith(t *testing.T, change func(*publisher.Options)) {
	t.Helper()
	l.Kill()
	change(&l.opts)
	l.Publisher = unopened(t, l.opts)
	l.start(t, nil)
}

// The relay stops if it may not write its own topics any more, and publishes nothing behind the event. It goes on once it may.
func TestOwnTopicsAreDenied(t *testing.T) {
	eachDelivery(t, func(t *testing.T, l *lettered) {
		for i, topic := range []string{letterTopic, letterIndex} {
			key := fmt.Sprint("a", i)
			l.restartWith(t, func(o *publisher.Options) { o.Timing.Patience = time.Nanosecond })
			allow := denyTopic(l, topic)
			l.send(t, fact{key, "", "1"}, fact{key, "t", "2"})
			stop, ok := errors.AsType[*cdc.StopError](l.failed(t))
			if !ok {
				t.Fatal(l.err)
			}
			if stop.Class != cdc.ClassConfig || !strings.Contains(stop.Error(), topic) || !strings.Contains(stop.Fix, "WRITE") {
				t.Errorf("%v: %s", stop.Class, cdc.Explain(stop))
			}
			allow()
			l.err = nil
			l.restart(t, nil)
			l.answered(t, l.send(t, fact{key, "", "1"}, fact{key, "t", "2"}))
			if published := l.published(t, key); published != "" {
				t.Errorf("published: %s", published)
			}
		}
	})
}

// denyTopic makes a topic one that may not be written, until the returned function is called.
func denyTopic(l *lettered, topic string) func() {
	if !l.exactlyOnce {
		f := l.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
		return f.Remove
	}
	over := false
	l.cluster.ControlKey(int16(kmsg.AddPartitionsToTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		l.cluster.KeepControl()
		r := req.(*kmsg.AddPartitionsToTxnRequest)
		if over || !slices.ContainsFunc(r.Topics, func(t kmsg.AddPartitionsToTxnRequestTopic) bool { return t.Topic == topic }) {
			return nil, nil, false
		}
		return deny(r, topic), nil, true
	})
	return func() { over = true }
}

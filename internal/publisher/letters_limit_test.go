package publisher_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

const (
	// long stands for a value of longPayload bytes, whose letter smallLimit does not allow.
	long        = "long"
	longPayload = 10_000
	smallLimit  = 4000
)

func incompressible(n int) string {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return string(b)
}

// limitLetters sets max.message.bytes of the topic of letters.
func (l *lettered) limitLetters(t *testing.T, bytes int) {
	t.Helper()
	value := strconv.Itoa(bytes)
	altered, err := admin(t, l.cluster.ListenAddrs()).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "max.message.bytes", Value: &value}}, letterTopic)
	if err != nil || altered[0].Err != nil {
		t.Fatal(err, altered)
	}
}

// before says which places a start from the first batch that comes again has passed.
func before(first uint64) func(place string) bool {
	return func(place string) bool { return place < fmt.Sprintf("%016X", 0x100*first) }
}

// tooLarge sends batches until the publisher stops because a letter is too large, and returns how many bytes the topic is to
// allow. With exactly-once delivery what comes before its batch is committed first.
func (l *lettered) tooLarge(t *testing.T, send func()) (first uint64, raise int, stop *cdc.StopError) {
	t.Helper()
	first = l.next
	for attempt := 1; ; attempt++ {
		send()
		l.failed(t)
		if attempt == 2 || !errors.Is(l.err, cdc.ErrRewind) {
			break
		}
		l.restart(t, before(first))
		l.next = first
	}
	found := regexp.MustCompile(` of public.outbox would be a dead letter of \d+ bytes, .*set max\.message\.bytes of topic letters to at least (\d+), or .* errors.skip, and restart`).FindStringSubmatch(cdc.Explain(l.err))
	if !errors.As(l.err, &stop) || errors.Is(l.err, cdc.ErrRewind) || stop.Class != cdc.ClassRuntime || found == nil {
		t.Fatalf("says %s", cdc.Explain(l.err))
	}
	raise, _ = strconv.Atoi(found[1])
	return first, raise, stop
}

// An event that cannot be published and is too large for a letter stops the publisher before anything of it is written, and becomes a letter
// once the topic allows that.
func TestLetterTooLargeForItsTopic(t *testing.T) {
	for name, large := range map[string][]fact{
		"refused by the router":       {{"a", "", long}},
		"for a topic that is missing": {{"a", "missing", long}},
		"behind one of its own batch": {{"a", "t", beyond}, {"a", "t", long}},
		"behind one of another batch": {{"z", "t", long}},
	} {
		t.Run(name, func(t *testing.T) {
			eachDelivery(t, func(t *testing.T, l *lettered) {
				l.limitLetters(t, smallLimit)
				l.restart(t, nil)
				l.answered(t, l.send(t, fact{"z", "", "1"}))
				send := func() {
					l.send(t, large...)
					l.send(t, fact{"b", "t", "1"})
				}
				first, raise, _ := l.tooLarge(t, send)
				if entries := l.entries(t); l.published(t, "a") != "" || len(large) == 1 && len(entries) != 1 {
					t.Errorf("published %q, letters: %v", l.published(t, "a"), entries)
				}
				l.limitLetters(t, raise)
				l.restart(t, before(first))
				l.next = first
				send()
				l.answered(t, first+1)
				eventually(t, "the letters", func() bool { return len(l.entries(t)) == 1+len(large) })
				if b := l.published(t, "b"); l.published(t, "a") != "" || !strings.HasPrefix(b, "1") {
					t.Errorf("published %q, %q", l.published(t, "a"), b)
				}
			})
		})
	}
}

// An event waits behind a letter of its key, and is too large to be one. With so few letters that nothing more is accepted the letter is
// published first, also if its row comes again: then the event is published, in the order of its key.
func TestEventTooLargeForALetterIsPublishedBehindOne(t *testing.T) {
	for _, comesAgain := range []bool{false, true} {
		eachDelivery(t, func(t *testing.T, l *lettered) {
			l.limitLetters(t, smallLimit)
			l.restart(t, nil)
			if !comesAgain {
				l.answered(t, l.send(t, fact{"a", "", "1"}))
			}
			again := func() {
				if comesAgain {
					l.answered(t, l.send(t, fact{"a", "", "1"}))
				}
				l.send(t, fact{"b", "t", "1"}, fact{"a", "t", long}, fact{"a", "t", "3"})
			}
			first, _, stop := l.tooLarge(t, again)
			if said := cdc.Explain(stop); !strings.Contains(said, `it waits for dead letters of its key "a"`) || !strings.Contains(said, "dead_letter.max_held_events: 1") {
				t.Errorf("says %s", said)
			}
			l.opts.Letters.MaxLetters = 1
			l.restart(t, before(first))
			l.next = first
			again()
			eventually(t, "the letter", func() bool { return l.index.Full() })
			l.resolve(t, "t", "a/1@0000000000000100/0")
			l.answered(t, l.next-1)
			a := strings.ReplaceAll(l.published(t, "a"), incompressible(longPayload), long)
			if a != "1 long 3" || len(l.entries(t)) != 0 {
				t.Errorf("published %q; left: %v", a, l.entries(t))
			}
		})
	}
}

// The limit of the topic of letters is lowered while the relay runs: it stops and names the letter, and goes on once that fits.
func TestLimitOfLettersIsLowered(t *testing.T) {
	eachDelivery(t, func(t *testing.T, l *lettered) {
		l.limitLetters(t, smallLimit)
		first := l.send(t, fact{"a", "", long})
		l.failed(t)
		if said := cdc.Explain(l.err); !strings.Contains(said, `write "a/long@0000000000000100/0" to the relay's own topic "letters"`) || !strings.Contains(said, "max.message.bytes, for dead letters to 103809024") {
			t.Errorf("says %s", said)
		}
		l.restart(t, before(first))
		l.next = first
		_, raise, _ := l.tooLarge(t, func() { l.send(t, fact{"a", "", long}) })
		l.limitLetters(t, raise)
		l.restart(t, before(first))
		l.next = first
		l.answered(t, l.send(t, fact{"a", "", long}))
		if left := l.letters(t); len(left) != 1 {
			t.Errorf("letters: %v", left)
		}
	})
}

// Letters that an earlier version wrote without their payload are not taken over.
func TestLettersWithoutTheirPayloadAreRefused(t *testing.T) {
	eachDelivery(t, func(t *testing.T, l *lettered) {
		client, err := kgo.NewClient(kgo.SeedBrokers(l.cluster.ListenAddrs()...))
		testenv.Must(t, err)
		defer client.Close()
		entry := &kgo.Record{Topic: letterIndex, Key: []byte("letter/a@1/0"), Value: []byte(`{"v":1,"reason":"too_large","stub":true}`)}
		testenv.Must(t, client.ProduceSync(t.Context(), entry).FirstErr())
		stop := l.refuses(t, source(), "dead_letter_without_payload")
		if stop.Class != cdc.ClassConfig || !strings.Contains(stop.Fix, "`cdc-relay dlq retry --all --yes`") {
			t.Errorf("stopped with %v: %s", stop.Class, cdc.Explain(stop))
		}
	})
}

package publisher_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
)

const (
	// long stands for a value of longBytes, so many unless a test says otherwise, whose letter smallLimit does not allow.
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
	client, err := kgo.NewClient(kgo.SeedBrokers(l.cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	value := strconv.Itoa(bytes)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
		ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: letterTopic,
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "max.message.bytes", Value: &value}},
	}}
	res, err := req.RequestWith(t.Context(), client)
	if err != nil || res.Resources[0].ErrorCode != 0 {
		t.Fatal(err, res)
	}
}

// untilWithheld sends batches, and again in further attempts of the same process, until no event is accepted. Each attempt but the last ends
// because a letter is too large. It returns the number of the first batch, and how many attempts there were.
func (l *lettered) untilWithheld(t *testing.T, send func()) (first uint64, attempts int) {
	t.Helper()
	first = l.next
	for attempts = 1; ; attempts++ {
		send()
		var ended error
		eventually(t, "a batch to be withheld", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			ended = l.err
			return ended != nil || l.index.Withheld() != nil
		})
		if ended == nil {
			l.isWithheld(t, first)
			return first, attempts
		}
		if !errors.Is(ended, cdc.ErrRewind) || attempts == 3 {
			t.Fatalf("attempt %d: %v", attempts, ended)
		}
		l.restart(t, func(place string) bool { return place < fmt.Sprintf("%016X", 0x100*first) })
		l.next = first
	}
}

// isWithheld verifies that batches from this one on are not accepted.
func (l *lettered) isWithheld(t *testing.T, first uint64) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil || l.acked >= first || l.Accepted() >= first || !l.index.Full() {
		t.Fatalf("%v, acknowledged %d, accepted %d", l.err, l.acked, l.Accepted())
	}
}

// An event waits behind a letter of its key, and is too large to be one. Nothing more is accepted, and letters can be published and
// dropped: then the event is published, in the order of its key, and what comes behind it.
func TestLetterTooLargeForItsTopic(t *testing.T) {
	for _, do := range []string{"t", ""} {
		eachDelivery(t, func(t *testing.T, l *lettered) {
			t.Helper()
			l.limitLetters(t, smallLimit)
			l.restart(t, nil)
			l.answered(t, l.send(t, fact{"a", "", "1"}, fact{"z", "", "1"}))
			held, attempts := l.untilWithheld(t, func() {
				l.send(t, fact{"b", "t", "1"}, fact{"a", "t", long}, fact{"a", "t", "3"})
				l.send(t, fact{"b", "t", "2"})
			})
			if attempts != 2 {
				t.Fatalf("%d attempts", attempts)
			}
			if err := l.index.Withheld(); !strings.Contains(err.Error(), `waits for dead letters of its key "a"`) || !strings.Contains(cdc.Fix(err), "or set max.message.bytes of topic letters to at least 2") {
				t.Errorf("%s", cdc.Explain(err))
			}
			l.resolve(t, "t", "z/1@0000000000000100/1")
			l.isWithheld(t, held)
			l.resolve(t, do, "a/1@0000000000000100/0")
			l.answered(t, held+1)
			eventually(t, "the first batch", func() bool { return strings.HasSuffix(l.published(t, "a"), " 3") })
			a, want := strings.ReplaceAll(l.published(t, "a"), incompressible(longPayload), long), "1 long 3"
			if do == "" {
				want = "long 3"
			}
			if b := l.published(t, "b"); a != want || b != "1 2" || l.index.Full() || len(l.entries(t)) != 0 {
				t.Errorf("published %q, %q; left: %v", a, b, l.entries(t))
			}
		})
	}
}

// An event that cannot be published and is too large for a letter ends one attempt, not each. In the next one nothing more is accepted, letters
// can be resolved, and the event becomes a letter as soon as the topic allows that.
func TestLetterOfALargeEvent(t *testing.T) {
	for name, large := range map[string][]fact{
		"refused by the router":       {{"a", "", long}},
		"for a topic that is missing": {{"a", "missing", long}},
		"behind one of its own batch": {{"a", "t", beyond}, {"a", "t", long}},
	} {
		t.Run(name, func(t *testing.T) {
			eachDelivery(t, func(t *testing.T, l *lettered) {
				t.Helper()
				l.limitLetters(t, smallLimit)
				l.restartWith(t, func(o *publisher.Options) { o.Timing.MetadataInterval = 10 * time.Second }) // the limit is read more often
				l.answered(t, l.send(t, fact{"z", "", "1"}))
				first, _ := l.untilWithheld(t, func() {
					l.send(t, large...)
					l.send(t, fact{"b", "t", "1"})
				})
				l.resolve(t, "t", "z/1@0000000000000100/0")
				l.isWithheld(t, first)
				l.limitLetters(t, 1<<20)
				l.answered(t, first+1)
				eventually(t, "the letters", func() bool { return len(l.entries(t)) == len(large) })
				if l.published(t, "a") != "" || !strings.HasPrefix(l.published(t, "b"), "1") || l.index.Full() {
					t.Errorf("published %q, %q", l.published(t, "a"), l.published(t, "b"))
				}
			})
		})
	}
}

// withheldFor waits until a batch is withheld, and returns how many bytes its letter has, and how many the topic is to allow.
func (l *lettered) withheldFor(t *testing.T, send func()) (first uint64, size, raise int) {
	t.Helper()
	first, _ = l.untilWithheld(t, send)
	said := l.index.Withheld()
	found := regexp.MustCompile(` of (\d+) bytes, .*set max\.message\.bytes of topic letters to at least (\d+)`).FindStringSubmatch(cdc.Explain(said))
	if found == nil {
		t.Fatalf("says %s", cdc.Explain(said))
	}
	size, _ = strconv.Atoi(found[1])
	raise, _ = strconv.Atoi(found[2])
	return first, size, raise
}

// A letter is accepted as soon as the topic allows so many bytes as the relay says, whatever length the letter's length has, and however many
// digits its time has in the next attempt. A relay that starts then accepts it if the topic allows just as many as it takes.
func TestLetterFitsOnceItsTopicAllowsWhatIsSaid(t *testing.T) {
	for _, compression := range []string{"none", "gzip"} {
		t.Run(compression, func(t *testing.T) {
			eachDelivery(t, func(t *testing.T, l *lettered) {
				t.Helper()
				var nanoseconds atomic.Int64
				now := func() time.Time { // with one digit behind the point, or nine
					tenths := time.Now().Truncate(100 * time.Millisecond)
					if tenths.Nanosecond() == 0 {
						tenths = tenths.Add(100 * time.Millisecond)
					}
					return tenths.Add(time.Duration(nanoseconds.Load()))
				}
				with := func(o *publisher.Options) {
					o.Compression, o.Timing.MetadataInterval, o.Timing.Now = compression, 3*time.Second, now
				}
				rest := 0 // of the letter, without its payload
				for i, bytes := range []func() int{
					func() int { return 5000 },
					func() int { return 8192 - rest - 10 },
					func() int { return 8192 - rest },
					func() int { return 1<<20 - rest - 10 },
					func() int { return 1<<20 - rest },
				} {
					l.longBytes = bytes()
					for _, exact := range []bool{false, true} {
						key := fmt.Sprint(i, exact)
						send := func() { l.send(t, fact{key, "", long}) }
						l.limitLetters(t, smallLimit)
						nanoseconds.Store(int64(i % 2))
						l.restartWith(t, with)
						first, size, raise := l.withheldFor(t, send)
						rest = max(rest, size-63-l.longBytes)
						if exact {
							l.limitLetters(t, size)
							l.restartWith(t, with)
							l.next = first
							send()
						} else {
							nanoseconds.Store(int64(1 - i%2))
							l.limitLetters(t, raise)
						}
						l.answered(t, first)
						if left := l.letters(t); left[fmt.Sprintf("%s/long@%016X/0", key, 0x100*first)] == nil {
							t.Errorf("a payload of %d bytes: no letter; it takes %d and the topic is to allow %d", l.longBytes, size, raise)
						}
					}
				}
			})
		})
	}
}

// An event is accepted because the topic allows its letter now, and is too large again. It still waits for what is before it only.
func TestLetterOutgrowsARaisedLimit(t *testing.T) {
	eachDelivery(t, func(t *testing.T, l *lettered) {
		t.Helper()
		l.limitLetters(t, smallLimit)
		l.restart(t, nil)
		l.answered(t, l.send(t, fact{"a", "", "1"}))
		send := func() { l.send(t, fact{"a", "t", long}) }
		held, _, raise := l.withheldFor(t, send)
		l.Kill()
		l.limitLetters(t, raise)
		l.longBytes += 1000
		l.restart(t, nil)
		l.next = held
		if first, attempts := l.untilWithheld(t, send); first != held || attempts != 2 {
			t.Fatalf("batch %d, %d attempts", first, attempts)
		}
		if err := l.index.Withheld(); !strings.Contains(err.Error(), `waits for dead letters of its key "a"`) {
			t.Errorf("%s", cdc.Explain(err))
		}
		l.resolve(t, "", "a/1@0000000000000100/0")
		l.answered(t, held)
		if a := l.published(t, "a"); len(a) != l.longBytes || len(l.entries(t)) != 0 {
			t.Errorf("published %d bytes; left: %v", len(a), l.entries(t))
		}
	})
}

// The limit of the topic of letters is lowered: one attempt ends, the next one reads the limit, and the event is withheld.
func TestLimitOfLettersIsLowered(t *testing.T) {
	eachDelivery(t, func(t *testing.T, l *lettered) {
		t.Helper()
		l.restartWith(t, func(o *publisher.Options) { o.Timing.MetadataInterval = 10 * time.Second }) // the limit is read more often
		l.answered(t, l.send(t, fact{"a", "", "1"}, fact{"z", "", "1"}))
		l.limitLetters(t, smallLimit)
		first, _, raise := l.withheldFor(t, func() { l.send(t, fact{"a", "t", long}) })
		l.resolve(t, "t", "a/1@0000000000000100/0")
		if !l.exactlyOnce { // it has an entry, which is not taken back
			l.isWithheld(t, first)
			l.limitLetters(t, raise)
			l.answered(t, first)
			l.resolve(t, "t", fmt.Sprintf("a/long@%016X/0", 0x100*first))
		}
		l.answered(t, first)
		eventually(t, "the event", func() bool { return l.published(t, "a") == "1 "+incompressible(longPayload) })
		if left := l.letters(t); len(left) != 1 || l.index.Full() {
			t.Errorf("letters: %v", left)
		}
	})
}

// Letters that an earlier version wrote without their payload are not taken over.
func TestLettersWithoutTheirPayloadAreRefused(t *testing.T) {
	eachDelivery(t, func(t *testing.T, l *lettered) {
		t.Helper()
		client, err := kgo.NewClient(kgo.SeedBrokers(l.cluster.ListenAddrs()...))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		entry := &kgo.Record{Topic: letterIndex, Key: []byte("letter/a@1/0"), Value: []byte(`{"v":1,"reason":"too_large","stub":true}`)}
		if err := client.ProduceSync(t.Context(), entry).FirstErr(); err != nil {
			t.Fatal(err)
		}
		stop := l.refuses(t, source(), "dead_letter_without_payload")
		if stop.Class != cdc.ClassConfig || !strings.Contains(stop.Fix, "`cdc-relay dlq retry --all --yes`") {
			t.Errorf("stopped with %v: %s", stop.Class, cdc.Explain(stop))
		}
	})
}

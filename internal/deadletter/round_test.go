package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// shelf is a topic of letters with one partition, the relay's memory of it, and what is published.
type shelf struct {
	Sink

	index     *Index
	log       []kafka.Record // by offset, some of which are compacted away
	next      int64
	read      int // records that were read
	published []string
	noted     map[string]*Entry
	answers   map[string]*Ask
	accepted  map[string]*Ask // what a start finds
	answered  func(*Ask)
	leaders   map[string]int32
	refused   string // the letter that Kafka refuses
	// then is called for each letter that is published.
	then func(id string)
}

func (s *shelf) Close() {}

func (s *shelf) Read(_ context.Context, _ string, _ int32, from, end int64, fn func(*kafka.Record) error) error {
	switch {
	case end == kafka.Committed:
		end = s.next
	case from > s.next:
		return sarama.ErrOffsetOutOfRange
	case end > s.next:
		return errors.New("it is not readable to there yet")
	}
	for _, rec := range slices.Clone(s.log) {
		if rec.Offset < from || rec.Offset >= end {
			continue
		}
		s.read++
		if err := fn(&rec); err != nil {
			return err
		}
	}
	return nil
}

func (s *shelf) OffsetAt(context.Context, string, int32, time.Time) (int64, error) { return 0, nil }

func (s *shelf) Leaderless(context.Context, []string) (map[string]int32, error) {
	return s.leaders, nil
}

func (s *shelf) LoadLetters(context.Context, cdc.Source, func(string) bool) (*Loaded, error) {
	return &Loaded{Index: s.index, Accepted: s.accepted}, nil
}

func (s *shelf) Resolve(_ context.Context, letters []Resolution) ([]Outcome, error) {
	outcomes := make([]Outcome, len(letters))
	for i := range letters {
		l := &letters[i]
		outcomes[i].Skipped = !s.index.Begin(l.ID, l.Message == nil)
	}
	for i := range letters {
		l := &letters[i]
		switch {
		case outcomes[i].Skipped:
			continue
		case l.ID == s.refused:
			outcomes[i] = Outcome{Err: errors.New("refused"), Reason: "topic"}
			s.index.Failed(l.ID, "topic", time.Now(), 1)
			continue
		}
		s.index.Resolved(l.ID)
		s.published = append(s.published, l.ID)
		if s.then != nil {
			s.then(l.ID)
		}
	}
	return outcomes, nil
}

func (s *shelf) WriteIndex(_ context.Context, values map[string][]byte) error {
	records := written(values)
	maps.Copy(s.noted, records.Entries)
	maps.Copy(s.answers, records.Asks)
	for _, a := range records.Asks {
		if s.answered != nil && a.Do == Drop {
			s.answered(a)
		}
	}
	return nil
}

// written returns what is written into the index.
func written(values map[string][]byte) *Records {
	records := NewRecords()
	for key, value := range values {
		if err := records.Add(key, value); err != nil {
			panic(err)
		}
	}
	return records
}

func (s *shelf) CloseKeys(context.Context, []string) error { return nil }

func (s *shelf) OpenKeys(context.Context, []string) error { return nil }

func (s *shelf) Forget(_ context.Context, letters map[string]int32) error {
	for id := range letters {
		s.append(id, nil, nil)
	}
	return nil
}

// Route publishes each letter to a topic that has the name of its key.
func (s *shelf) Route(b *cdc.Batch, dst *cdc.Routed) error {
	key, _ := b.Value(0, 0)
	if string(key) != "skip" {
		dst.Messages = append(dst.Messages, cdc.Message{Topic: string(key)})
	}
	return nil
}

func (s *shelf) append(id string, value []byte, headers []cdc.Header) int64 {
	s.log = append(s.log, kafka.Record{Offset: s.next, Key: []byte(id), Value: value, Headers: headers})
	s.next++
	return s.next - 1
}

// write writes a letter's record, and returns its offset.
func (s *shelf) write(id string, e *Entry) int64 {
	key := e.Key
	l := Letter{Entry: *e, Payload: []byte("{}"), Row: Row{Columns: []Column{{Name: "key", Text: &key}}}}
	value, headers := l.EncodeRecord()
	return s.append(id, value, headers)
}

// add adds a letter, whose offset is known if the run that writes it resolves it too.
func (s *shelf) add(id string, e *Entry) {
	s.index.Add(id, e)
	s.index.Found(id, s.write(id, e))
	s.index.Stored(id)
}

// compact removes records with a later one of their key.
func (s *shelf) compact() {
	last := map[string]int64{}
	for i := range s.log {
		last[string(s.log[i].Key)] = s.log[i].Offset
	}
	s.log = slices.DeleteFunc(s.log, func(r kafka.Record) bool { return last[string(r.Key)] != r.Offset })
}

func newShelf(t interface{ Fatal(args ...any) }, entries map[string]*Entry) (*shelf, *Resolver) {
	s := &shelf{noted: map[string]*Entry{}, answers: map[string]*Ask{}}
	s.append(Barrier, []byte{}, nil)
	r := s.start(t, entries)
	return s, r
}

// start is that of a relay, which knows the letters of the index and none of their offsets.
func (s *shelf) start(t interface{ Fatal(args ...any) }, entries map[string]*Entry) *Resolver {
	s.index = NewIndex(Options{HoldKey: true, MaxLetters: 1 << 20}, panics, entries, func(string) bool { return true })
	r := NewResolver(ResolverOptions{Passed: func(cdc.Progress, string) bool { return true }}, s, s, slog.New(slog.DiscardHandler))
	r.open = func() source { return s }
	if err := r.Load(context.Background(), cdc.Source{}, cdc.Progress{}); err != nil {
		t.Fatal(err)
	}
	return r
}

// drain does rounds until nothing more can be done.
func drain(t interface{ Fatal(args ...any) }, r *Resolver) {
	for {
		more, err := r.step(context.Background(), cdc.Progress{})
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return
		}
	}
}

// Compaction keeps the last record of a letter, behind the place that is known.
func TestLetterIsFoundBehindItsPlace(t *testing.T) {
	s, r := newShelf(t, nil)
	e := &Entry{Table: "a.b", Key: "k", Reason: Held, Time: time.Now(), Order: s.index.Order(1, 0)}
	s.add("k1@1", e)
	s.write("k1@1", e)
	s.compact()
	drain(t, r)
	if !slices.Equal(s.published, []string{"k1@1"}) {
		t.Errorf("published %q", s.published)
	}
}

// A repair writes a letter again, with what its row is then: the last record counts, wherever a search has ended.
func TestLetterOfARepairIsTheLastOne(t *testing.T) {
	s, _ := newShelf(t, nil)
	entries := map[string]*Entry{}
	for i, id := range []string{"other@1/0", "row@0/1"} {
		entries[id] = &Entry{Table: "a.b", Reason: "malformed", Order: Order{Epoch: 1, Seq: uint64(i)}}
	}
	s.write("row@0/1", &Entry{Key: "skip"})
	s.write("other@1/0", entries["other@1/0"])
	s.write("row@0/1", entries["row@0/1"])
	r := s.start(t, entries)
	for _, id := range []string{"other@1/0", "row@0/1"} {
		r.asks.take(ask{id: id, asked: &Ask{Do: Retry, Letters: []string{id}}})
		drain(t, r)
		if a := s.answers[id]; a == nil || a.Done != 1 || a.Skipped != 0 {
			t.Errorf("%s: %+v", id, a)
		}
	}
}

// An attempt that failed has noted where both letters are. They are near each other and are read at once, and so is the earlier record
// between them.
func TestLetterOfARepairIsTheLastOneWhereOffsetsAreKnown(t *testing.T) {
	s, _ := newShelf(t, nil)
	entries := map[string]*Entry{}
	for i, id := range []string{"other@1/0", "row@0/1"} {
		entries[id] = &Entry{Table: "a.b", Reason: "malformed", Order: Order{Epoch: 1, Seq: uint64(i)}}
	}
	s.write("other@1/0", entries["other@1/0"])
	s.write("row@0/1", &Entry{Key: "skip"})
	s.write("row@0/1", entries["row@0/1"])
	r := s.start(t, entries)
	for _, tt := range []struct {
		refused, letters string
		done             int
	}{{"row@0/1", "row@0/1", 0}, {"", "other@1/0 row@0/1", 2}} {
		s.refused = tt.refused
		r.asks.take(ask{id: tt.letters, asked: &Ask{Do: Retry, Letters: strings.Fields(tt.letters)}})
		drain(t, r)
		if a := s.answers[tt.letters]; a == nil || a.Done != tt.done || a.Skipped != 0 {
			t.Errorf("%s: %+v", tt.letters, a)
		}
	}
}

// A letter that failed is published again and fails again: those behind it stay, also those for another topic, which Kafka would take.
func TestLettersBehindOneThatFailsAgain(t *testing.T) {
	s, r := newShelf(t, nil)
	for i, topic := range []string{"gone", "there"} {
		id, e := fmt.Sprintf("%d@1", i), Entry{Table: "a.b", Key: "k", Reason: []string{"topic", Held}[i], Time: time.Now(), Order: s.index.Order(uint64(i+1), 0)}
		s.index.Add(id, &e)
		e.Key = topic
		s.index.Found(id, s.write(id, &e))
		s.index.Stored(id)
	}
	for _, tt := range []struct {
		refused string
		want    []string
	}{{"0@1", nil}, {"", []string{"0@1", "1@1"}}} {
		s.refused = tt.refused
		r.asks.take(ask{id: "a" + tt.refused, asked: &Ask{Do: Retry, Letters: []string{"0@1"}}})
		drain(t, r)
		if !slices.Equal(s.published, tt.want) {
			t.Errorf("refused %q: published %q, want %q", tt.refused, s.published, tt.want)
		}
	}
}

// Whatever letters are written, written again, compacted away and deleted, and wherever a relay starts in between: those that have a
// record are published once, those of a key in their order, and none overtakes one that is missing.
func TestRoundsAgainstAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, r := newShelf(t, nil)
		r.round = 4
		var all []string // in order
		entries, gone, done := map[string]*Entry{}, map[string]bool{}, 0
		for seq := range rapid.IntRange(1, 60).Draw(t, "steps") {
			left := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return entries[id] == nil || gone[id] })
			what := rapid.IntRange(0, 9).Draw(t, "what")
			switch {
			case what < 5 || len(left) == 0 && what < 8:
				key := rapid.SampledFrom([]string{"", "k", "l"}).Draw(t, "key")
				e := &Entry{Table: "a.b", Key: key, Reason: Held, Time: time.Now(), Order: s.index.Order(uint64(seq), 0)}
				id := fmt.Sprintf("%s%d@%d", cmp.Or(key, "-"), seq, seq%2) // half of them are of rows read by SQL
				all, entries[id] = append(all, id), e
				s.add(id, e)
			case what == 5: // its row was met again, or the answer was lost
				id := rapid.SampledFrom(left).Draw(t, "again")
				s.write(id, entries[id])
			case what == 6:
				id := rapid.SampledFrom(left).Draw(t, "deleted")
				gone[id] = true
				s.log = slices.DeleteFunc(s.log, func(r kafka.Record) bool { return string(r.Key) == id })
			case what == 7:
				s.compact()
			case what == 8:
				r = s.start(t, entries)
				r.round = 4
			default:
				if _, err := r.step(t.Context(), cdc.Progress{}); err != nil {
					t.Fatal(err)
				}
			}
			for ; done < len(s.published); done++ {
				delete(entries, s.published[done])
			}
		}
		r.lost = map[string]time.Time{}
		drain(t, r)
		var want []string
		stuck := map[string]bool{}
		for _, id := range all {
			key := id[:1]
			stuck[key] = key != "-" && (stuck[key] || gone[id] && !slices.Contains(s.published, id))
			if !gone[id] && !stuck[key] || slices.Contains(s.published, id) {
				want = append(want, id)
			}
		}
		byKey := func(ids []string) []string {
			return slices.SortedStableFunc(slices.Values(ids), func(a, b string) int { return strings.Compare(a[:1], b[:1]) })
		}
		got, expected := byKey(s.published), byKey(want)
		for _, ids := range []*[]string{&got, &expected} { // those without a key are in no order
			n := 0
			for n < len(*ids) && (*ids)[n][0] == '-' {
				n++
			}
			slices.Sort((*ids)[:n])
		}
		if !slices.Equal(got, expected) {
			t.Fatalf("published %q, want %q; deleted %v", got, expected, gone)
		}
	})
}

// Somebody deletes the topic of letters and makes it again, or truncates a partition: what is still there is published, and what is
// written again there, without a restart.
func TestTruncatedTopicOfLetters(t *testing.T) {
	for left := range 9 {
		s, r := newShelf(t, nil)
		entry := func(i int) *Entry {
			return &Entry{Table: "a.b", Reason: Held, Time: time.Now(), Order: s.index.Order(uint64(i), 0)}
		}
		for i := range 9 {
			s.add(fmt.Sprintf("%d@1", i), entry(i))
		}
		first := s.next - 9
		s.next = first + int64(left)
		s.log = slices.DeleteFunc(s.log, func(rec kafka.Record) bool { return rec.Offset >= s.next })
		drain(t, r)
		s.add("9@1", entry(9))
		drain(t, r)
		want := []string{"0@1", "1@1", "2@1", "3@1", "4@1", "5@1", "6@1", "7@1"}[:left]
		if got := slices.Sorted(slices.Values(s.published)); !slices.Equal(got, append(want, "9@1")) {
			t.Errorf("%d are left: published %q", left, got)
		}
	}
}

// However many rounds a key takes, each record is read about once.
func TestRoundsReadEachRecordOnce(t *testing.T) {
	const letters = 3000
	entries := map[string]*Entry{}
	s, _ := newShelf(t, nil)
	for i := range letters {
		e := &Entry{Table: "a.b", Key: "k", Reason: Held, Order: Order{Epoch: 1, Seq: uint64(i)}}
		id := fmt.Sprintf("%d@1", i)
		entries[id] = e
		s.write(id, e)
	}
	r := s.start(t, entries)
	r.round = 100
	n := 0
	s.then = func(string) { // the key goes on
		if n++; n <= letters {
			s.add(fmt.Sprintf("more%d@1", n), &Entry{Table: "a.b", Key: "k", Reason: Held, Order: s.index.Order(uint64(n), 0)})
		}
	}
	drain(t, r)
	if len(s.published) != 2*letters || s.read > 3*int(s.next) {
		t.Errorf("%d letters published, %d of %d records read", len(s.published), s.read, s.next)
	}
}

// A drop that is asked for while a round goes on holds for the rest of it, and for what is behind it in its key.
func TestDropDuringARound(t *testing.T) {
	s, r := newShelf(t, nil)
	const letters = 2 * chunkLetters
	for i := range uint64(letters) {
		s.add(fmt.Sprintf("%d@1", i), &Entry{Table: "a.b", Key: "k", Reason: Held, Order: s.index.Order(i, 0)})
	}
	s.then = func(string) {
		if len(s.published) == chunkLetters {
			r.asks.take(ask{id: "a", asked: &Ask{Do: Drop, Letters: []string{fmt.Sprintf("%d@1", chunkLetters+1)}}})
		}
	}
	if _, err := r.retry(t.Context()); err != nil || len(s.published) != chunkLetters+1 {
		t.Errorf("%d letters published, %v", len(s.published), err)
	}
}

// The letters of a drop are published by a retry, before the relay hears of it or meanwhile, but for the last one. Whichever record of the
// drop the next leader finds, the relay's or the command's, it counts that letter only.
func TestDroppedLettersAreCountedByTheNextLeader(t *testing.T) {
	letters := []string{"0@1", "1@1", "2@1"}
	for name, heard := range map[string]string{"meanwhile": "0@1", "later": ""} {
		s, r := newShelf(t, nil)
		for i, id := range letters {
			s.add(id, &Entry{Table: "a.b", Key: id, Reason: "unroutable", Order: s.index.Order(uint64(i), 0)})
		}
		r.asks.take(ask{id: "retry", asked: &Ask{Do: Retry, Letters: letters[:2]}})
		drop := &Ask{Do: Drop, Letters: letters}
		command := asking{open: map[string]*Ask{"drop": drop}, said: map[string]bool{"": true}}
		var found []Ask
		s.answered = func(a *Ask) {
			found = append(found, *a)
			if command.hear(answer{Ask: *a, key: "drop"}); command.open["drop"] != nil {
				found = append(found, *drop)
			}
		}
		r.asked = make(chan ask, 1)
		s.then = func(id string) {
			if id == heard {
				r.asked <- ask{id: "drop", asked: &Ask{Do: Drop, Letters: letters}}
			}
		}
		if _, err := r.step(t.Context(), cdc.Progress{}); err != nil || len(s.published) != 2 || (len(found) > 0) != (heard != "") {
			t.Fatalf("%s: published %q, answers %+v, %v", name, s.published, found, err)
		}
		if heard == "" {
			r.asks.take(ask{id: "drop", asked: &Ask{Do: Drop, Letters: letters}})
		}
		drain(t, r)
		if a := s.answers["drop"]; a.State != Ended || a.Done != 1 || command.result.Done != 1 {
			t.Errorf("%s: answer %+v, result %+v", name, a, command.result)
		}
		s.answered = nil
		for _, a := range found {
			if len(a.Letters) == 0 || a.State != Accepted && !a.Again { // its command has to ask again
				continue
			}
			s.accepted = map[string]*Ask{"drop": &a}
			drain(t, s.start(t, nil))
			if s.answers["drop"].Done != 1 {
				t.Errorf("%s: the next leader finds %+v, and counts %d", name, a, s.answers["drop"].Done)
			}
		}
	}
}

// A key gets letters as fast as they are published. Commands are answered all the same, and the letters of other keys are resolved.
func TestBusyKeyKeepsNobodyWaiting(t *testing.T) {
	s, r := newShelf(t, nil)
	r.round = 8
	held := func(seq uint64, key, reason string) *Entry {
		return &Entry{Table: "a.b", Key: key, Reason: reason, Order: s.index.Order(seq, 0)}
	}
	s.add("bad@1", held(0, "k", "unroutable"))
	s.add("other@1", held(0, "l", "unroutable"))
	s.add("dropped@1", held(0, "m", "unroutable"))
	for i := range uint64(20) {
		s.add(fmt.Sprintf("%d@1", i), held(1+i, "k", Held))
	}
	n := uint64(20)
	s.then = func(id string) {
		if id != "other@1" && id != "dropped@1" {
			n++
			s.add(fmt.Sprintf("%d@1", n), held(1+n, "k", Held))
		}
	}
	ask := func(id, do, letter string) {
		r.asks.take(ask{id: id, asked: &Ask{Do: do, Letters: []string{letter}}})
	}
	ended := func(id string) {
		t.Helper()
		for range 2 { // each takes some keys
			if more, err := r.step(t.Context(), cdc.Progress{}); err != nil || !more {
				t.Fatalf("the key is drained: %v, %v", !more, err)
			}
		}
		if a := s.answers[id]; a == nil || a.State != Ended || a.Done != 1 {
			t.Errorf("answer to %s: %+v", id, a)
		}
	}
	ask("1", Retry, "bad@1")
	ended("1")
	ask("2", Retry, "other@1")
	ended("2")
	ask("3", Drop, "dropped@1")
	ended("3")
}

// A letter whose topic has no leader waits, with those behind it, and its command is told why. All others go on.
func TestLetterForALeaderlessTopicWaits(t *testing.T) {
	s, r := newShelf(t, nil)
	for i, key := range []string{"away", "away", "here"} {
		reason := Held
		if i != 1 {
			reason = "unroutable"
		}
		s.add(fmt.Sprintf("%s%d@1", key, i), &Entry{Table: "a.b", Key: key, Reason: reason, Order: s.index.Order(uint64(i), 0)})
	}
	s.leaders = map[string]int32{"away": 2}
	for _, id := range []string{"away0@1", "away1@1", "here2@1"} {
		r.asks.take(ask{id: id, asked: &Ask{Do: Retry, Letters: []string{id}}})
	}
	drain(t, r)
	_, _ = r.step(t.Context(), cdc.Progress{}) // the answers
	for id, want := range map[string]string{"away0@1": Accepted, "away1@1": Accepted, "here2@1": Ended} {
		a := s.answers[id]
		if a == nil || a.State != want || strings.Contains(a.Waits, `topic "away" has no leader for partition 2`) != (want == Accepted) {
			t.Errorf("answer to %s: %+v", id, a)
		}
	}
	s.leaders, r.later = nil, map[string]postponed{}
	drain(t, r)
	if want := []string{"here2@1", "away0@1", "away1@1"}; !slices.Equal(s.published, want) {
		t.Errorf("published %q, want %q", s.published, want)
	}
}

// A letter that waited behind another one, and then failed itself, stays blocked while it is tried again: a relay that starts meanwhile
// publishes it only if it is asked to.
func TestRetryOfALetterThatWaited(t *testing.T) {
	e := Entry{Table: "a.b", Key: "k", Reason: "too_large", Order: Order{Epoch: 1}}
	s, r := newShelf(t, map[string]*Entry{"k@1": &e})
	written := e
	written.Reason = Held
	s.write("k@1", &written)
	r.asks.take(ask{id: "a", asked: &Ask{Do: Retry, Letters: []string{"k@1"}}})
	drain(t, r)
	if noted := s.noted["k@1"]; noted == nil || !noted.Blocked() {
		t.Errorf("entry %+v", noted)
	}
}

// A retry of a letter that errors.skip lists publishes nothing, and its command is told so.
func TestRetryOfASkippedEventIsNotDone(t *testing.T) {
	s, r := newShelf(t, nil)
	s.add("x@1", &Entry{Table: "a.b", Key: "skip", Reason: "unroutable", Order: s.index.Order(1, 0)})
	r.asks.take(ask{id: "a", asked: &Ask{Do: Retry, Letters: []string{"x@1"}}})
	drain(t, r)
	if a := s.answers["a"]; a == nil || a.State != Ended || a.Done != 0 || a.Skipped != 1 {
		t.Errorf("answer %+v", a)
	}
}

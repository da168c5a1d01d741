package faults

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// letterLog reads the topics of letters and of events as they are written, also what is not committed.
type letterLog struct {
	r      *cdctest.Rig
	client *kgo.Client
	seen   []*kgo.Record
}

func newLetterLog(tb testing.TB, r *cdctest.Rig) *letterLog {
	tb.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(r.Kafka.Bootstrap()...), kgo.ConsumeTopics(r.Topic, letterTopic(r), indexTopic(r)),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	r.Must(err)
	tb.Cleanup(client.Close)
	return &letterLog{r: r, client: client}
}

func letterTopic(r *cdctest.Rig) string { return r.Topic + "-dead" }
func indexTopic(r *cdctest.Rig) string  { return letterTopic(r) + ".index" }

// await waits until a record is there.
func (l *letterLog) await(what string, is func(*kgo.Record) bool) {
	ctx := l.r.Within(time.Minute)
	for at := 0; ; {
		for ; at < len(l.seen); at++ {
			if is(l.seen[at]) {
				return
			}
		}
		fetches := l.client.PollFetches(ctx)
		if ctx.Err() != nil {
			l.r.Must(fmt.Errorf("wait for %s: %w", what, ctx.Err()))
		}
		l.seen = append(l.seen, fetches.Records()...)
	}
}

// step is a record with which a step of work on a letter ends, named as in docs/maintainers/dead-letters.md.
type step struct {
	name string
	is   func(r *cdctest.Rig, e *cdctest.Event, k *kgo.Record) bool
}

// inIndex is a record of the index for the event's letter that holds a text; "" is a tombstone.
func inIndex(text string) func(*cdctest.Rig, *cdctest.Event, *kgo.Record) bool {
	return func(r *cdctest.Rig, e *cdctest.Event, k *kgo.Record) bool {
		return k.Topic == indexTopic(r) && strings.HasPrefix(string(k.Key), "letter/"+e.ID.String()) &&
			(k.Value == nil) == (text == "") && bytes.Contains(k.Value, []byte(text))
	}
}

// inLetters is a letter's record, or its tombstone.
func inLetters(tombstone bool) func(*cdctest.Rig, *cdctest.Event, *kgo.Record) bool {
	return func(r *cdctest.Rig, e *cdctest.Event, k *kgo.Record) bool {
		return k.Topic == letterTopic(r) && strings.HasPrefix(string(k.Key), e.ID.String()) && (k.Value == nil) == tombstone
	}
}

func inEvents(r *cdctest.Rig, e *cdctest.Event, k *kgo.Record) bool {
	return k.Topic == r.Topic && len(k.Headers) > 0 && string(k.Headers[0].Value) == e.ID.String()
}

func writingSteps() []step {
	return []step{{"entry", inIndex(`"reason"`)}, {"letter", inLetters(false)}}
}

func retryingSteps() []step {
	return []step{
		{"R1", inIndex(`"attempts":1`)}, {"R2", inEvents}, {"R3", inIndex(`"done":"published"`)}, {"R4", inLetters(true)}, {"R5", inIndex("")},
	}
}

func droppingSteps() []step {
	return []step{{"R3", inIndex(`"done":"dropped"`)}, {"R4", inLetters(true)}, {"R5", inIndex("")}}
}

// letter makes an event that no route matches, and three behind it.
func letter(r *cdctest.Rig, key string) *cdctest.Event {
	return letters(r, key, 3)[0]
}

// letters makes an event that no route matches, and so many behind it.
func letters(r *cdctest.Rig, key string, behind int) []*cdctest.Event {
	first := true
	return r.AppendAs(key, 1+behind, func(e *cdctest.Event) {
		if first {
			stray(e)
		}
		first = false
	})
}

// commands run beside the test, which fails if one of them does.
type commands struct {
	t       testing.TB
	r       *cdctest.Rig
	late    bool // a letter may have been resolved before
	running sync.WaitGroup
}

func (c *commands) start(args ...string) {
	relay, ctx := c.r.Relay, c.r.Within(time.Minute)
	c.running.Go(func() {
		if out, err := relay.Command(ctx, append([]string{"dlq"}, args...)...); err != nil &&
			(!c.late || !strings.Contains(out, "no dead letter has the ID") && !strings.Contains(out, "before it took the request")) {
			c.t.Errorf("dlq %s: %v: %s", strings.Join(args, " "), err, out)
		}
	})
}

// The relay is killed as soon as a step of dead-lettering, of a retry and of a drop is in Kafka. The next one goes on from there, and
// answers the command, which waits.
//
//covers:all 35 events both
func TestDeadLetterSteps(t *testing.T) {
	inBothModes(t, func(t *testing.T, s source, delivery func(*cdctest.RigOptions)) {
		r := letterRig(t, s, delivery)
		records := newLetterLog(t, r)
		killAfter := func(s step, e *cdctest.Event) {
			records.await(s.name, func(k *kgo.Record) bool { return s.is(r, e, k) })
			r.Kill()
			r.Start()
		}
		r.Start()
		for _, s := range writingSteps() {
			killAfter(s, letter(r, "written-"+s.name))
		}
		bad := map[string]*cdctest.Event{}
		for _, s := range retryingSteps() {
			bad["retry"+s.name] = letter(r, "retried-"+s.name)
		}
		for _, s := range droppingSteps() {
			bad["drop"+s.name] = letter(r, "dropped-"+s.name)
			r.Exclude(bad["drop"+s.name])
		}
		r.AwaitSaved(r.Append("other", 1))
		awaitCounts(r, "map[held:30 unroutable:10]")
		routeStrays(r)
		r.Kill() // after the position is saved
		r.Start()
		asking := &commands{t: t, r: r}
		for do, steps := range map[string][]step{"retry": retryingSteps(), "drop": droppingSteps()} {
			for _, s := range steps {
				e := bad[do+s.name]
				asking.start(do, e.ID.String())
				killAfter(s, e)
			}
		}
		asking.running.Wait()
		awaitCounts(r, "map[held:6 unroutable:2]")
		asking.start("retry", "--all", "--yes")
		asking.running.Wait()
		awaitCounts(r, "map[]")
		r.Verify()
	})
}

// Commands for the same letters run at the same time, and some are killed: each letter is published or dropped, once. What a command
// has asked for that was killed before the relay started is not done.
//
//covers:postgres 35 events both
//covers:mysql 35 events
//covers:mariadb 35 events exactly-once
func TestCommandsForTheSameLetters(t *testing.T) {
	inEitherMode(t, func(t *testing.T, s source, delivery func(*cdctest.RigOptions)) {
		r := letterRig(t, s, delivery)
		r.Start()
		bad := make([]*cdctest.Event, 12)
		for i := range bad {
			bad[i] = letter(r, fmt.Sprintf("k%d", i))
		}
		awaitCounts(r, "map[held:36 unroutable:12]")
		records := newLetterLog(t, r)
		routeStrays(r)
		r.Kill()
		killed := func(asks int, args ...string) {
			ctx, kill := context.WithCancel(r.Within(time.Minute))
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = r.Relay.Command(ctx, append([]string{"dlq"}, args...)...) // it is killed
			}()
			records.await("an ask", func(k *kgo.Record) bool {
				if strings.HasPrefix(string(k.Key), "ask/") && bytes.Contains(k.Value, []byte(`"letters"`)) {
					asks--
				}
				return asks == 0
			})
			kill()
			<-done
		}
		killed(1, "drop", "--all", "--yes")
		r.Start()
		r.AwaitEvents(r.Append("other", 10))
		wantCounts(r, "map[held:36 unroutable:12]", cdctest.Lost)
		killed(2, "retry", bad[0].ID.String())
		asking := &commands{t: t, r: r, late: true}
		for range 2 {
			asking.start("retry", "--yes", bad[0].ID.String(), bad[1].ID.String(), bad[2].ID.String(), bad[3].ID.String())
			asking.start("retry", "--yes", bad[2].ID.String(), bad[3].ID.String(), bad[4].ID.String(), bad[5].ID.String())
			asking.start("drop", "--yes", bad[4].ID.String(), bad[5].ID.String(), bad[6].ID.String(), bad[7].ID.String())
		}
		asking.running.Wait()
		awaitCounts(r, "map[held:12 unroutable:4]")
		r.Must(r.Reader.CatchUp(r.Within(time.Minute)))
		for _, e := range bad[4:8] {
			if !r.Reader.Has(e.ID) {
				r.Exclude(e)
			}
		}
		asking.start("retry", "--all", "--yes")
		asking.running.Wait()
		awaitCounts(r, "map[]")
		r.Verify()
	})
}

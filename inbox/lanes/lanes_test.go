package lanes_test

import (
	"context"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/lanes"
)

// watched are Lanes whose handler checks what it sees. In a bubble of synctest a goroutine that is left over is an error.
type watched struct {
	*lanes.Lanes

	t       *testing.T
	workers int

	mu       sync.Mutex
	running  int
	keys     map[string]bool // that have a handler running
	finished map[int64]bool
	last     map[string]int64
}

func watch(t *testing.T, workers int, c lanes.Config, again func(m *inbox.Message) (took, again time.Duration)) *watched {
	t.Helper()
	w := &watched{t: t, workers: workers, keys: map[string]bool{}, finished: map[int64]bool{}, last: map[string]int64{}}
	c.Workers = lanes.NewWorkers(workers)
	c.Handle = func(_ context.Context, m *inbox.Message) time.Duration {
		w.begin(m)
		took, pause := again(m)
		<-time.After(took)
		w.end([]*inbox.Message{m}, func(*inbox.Message) bool { return pause <= 0 })
		return pause
	}
	if rest := c.HandleBatch; rest != nil {
		c.HandleBatch = func(ctx context.Context, ms []*inbox.Message) []*inbox.Message {
			if len(ms) < 2 || len(ms) > c.Batch {
				t.Errorf("a batch of %d, the limit is %d", len(ms), c.Batch)
			}
			w.begin(ms...)
			unfinished := rest(ctx, ms)
			w.end(ms, func(m *inbox.Message) bool { return !slices.Contains(unfinished, m) })
			return unfinished
		}
	}
	w.Lanes = lanes.New(t.Context(), c)
	return w
}

// begin is called with a message, or a batch.
func (w *watched) begin(ms ...*inbox.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running++; w.running > w.workers {
		w.t.Errorf("%d handlers run, there are %d workers", w.running, w.workers)
	}
	for _, m := range ms {
		k := string(m.Key)
		if w.finished[m.Offset] {
			w.t.Errorf("offset %d is handled after it was finished", m.Offset)
		}
		if m.Key != nil && w.keys[k] {
			w.t.Errorf("two handlers of key %q run", k)
		}
		if m.Key != nil && m.Offset < w.last[k] {
			w.t.Errorf("offset %d of key %q is handled after %d", m.Offset, k, w.last[k])
		}
	}
	for _, m := range ms {
		if m.Key != nil {
			w.keys[string(m.Key)] = true
		}
	}
}

// end is called with what begin was called with. The last of a key is the last that is finished: a batch is handled again from there on.
func (w *watched) end(ms []*inbox.Message, finished func(*inbox.Message) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	for _, m := range ms {
		k := string(m.Key)
		delete(w.keys, k)
		if w.finished[m.Offset] = finished(m); m.Key != nil && w.finished[m.Offset] {
			if m.Offset < w.last[k] {
				w.t.Errorf("offset %d of key %q is finished after %d", m.Offset, k, w.last[k])
			}
			w.last[k] = m.Offset
		}
	}
}

// check looks for offsets before Next that are not finished.
func (w *watched) check(offered []int64) {
	next := w.Next()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range offered {
		if o < next && !w.finished[o] {
			w.t.Errorf("the next offset is %d, but %d is not finished", next, o)
		}
	}
}

// Random messages, times and retries: order for each key, and no offset behind an unfinished message.
func TestLanesProperties(t *testing.T) {
	first := rand.Uint64()
	if s, err := strconv.ParseUint(os.Getenv("CDC_RELAY_SEED"), 10, 64); err == nil {
		first = s
	}
	for seed := first; seed < first+100; seed++ {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			offerRandomly(t, r)
			if t.Failed() {
				t.Logf("CDC_RELAY_SEED=%d", seed)
			}
		})
		if t.Failed() {
			return
		}
	}
}

func offerRandomly(t *testing.T, r *rand.Rand) {
	t.Helper()
	var mu sync.Mutex // handlers draw numbers, too
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n)
	}
	finished := make(chan struct{}, 1)
	notify := func() {
		select {
		case finished <- struct{}{}:
		default:
		}
	}
	c := lanes.Config{Count: 1 + draw(40), Bytes: 1 + draw(200), Finished: notify}
	if draw(2) == 0 {
		c.Count, c.Bytes, c.Batch = 1+draw(100), 1+draw(5000), 1+draw(20)
		c.HandleBatch = func(_ context.Context, ms []*inbox.Message) (rest []*inbox.Message) {
			<-time.After(time.Duration(draw(20)) * time.Millisecond)
			failed, all := map[string]bool{}, draw(5) == 0
			for _, m := range ms {
				if all || failed[string(m.Key)] || draw(10) == 0 {
					failed[string(m.Key)] = m.Key != nil
					rest = append(rest, m)
				}
			}
			return rest
		}
	}
	w := watch(t, 1+draw(8), c, func(*inbox.Message) (time.Duration, time.Duration) {
		return time.Duration(draw(20)) * time.Millisecond, time.Duration(max(0, draw(40)-30)) * 10 * time.Millisecond
	})
	keys := []string{"", "a", "b", "c"}
	var offered []int64
	for offset, n := int64(draw(5)), draw(200); len(offered) < n; offset += 1 + int64(draw(3)*draw(3)) {
		m := &inbox.Message{Offset: offset, Value: make([]byte, draw(100))}
		if k := draw(len(keys) + 1); k < len(keys) {
			m.Key = []byte(keys[k])
		}
		for !w.Offer(m) {
			<-finished
			w.check(offered)
		}
		offered = append(offered, offset)
		w.check(offered)
	}
	all := draw(2) == 0
	for all && w.Len() > 0 {
		<-finished
	}
	if err := w.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	w.check(offered)
	if all && len(offered) > 0 && w.Next() != offered[len(offered)-1]+1 {
		t.Errorf("all are finished, the next offset is %d: offered %d", w.Next(), offered)
	}
	if w.Offer(&inbox.Message{Offset: 1 << 40}) || w.Do(nil, nil) {
		t.Error("taken after Stop")
	}
}

func TestLanesBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := lanes.New(t.Context(), lanes.Config{Count: 3, Bytes: 10, Workers: lanes.NewWorkers(8), Handle: func(_ context.Context, m *inbox.Message) time.Duration {
			if m.Offset == 0 {
				<-release
			}
			return 0
		}})
		offer := func(offset int64, size int) bool {
			defer synctest.Wait()
			return l.Offer(&inbox.Message{Offset: offset, Value: make([]byte, size)})
		}
		// Finished messages behind an unfinished one have no bytes anymore, but count.
		taken := []bool{offer(0, 5), offer(1, 5), offer(2, 6), offer(2, 5), offer(3, 0)}
		if want := []bool{true, true, false, true, false}; !slices.Equal(taken, want) || l.Next() != 0 || l.Len() != 3 {
			t.Errorf("taken %v, next offset %d, %d count", taken, l.Next(), l.Len())
		}
		close(release)
		synctest.Wait()
		if l.Next() != 3 || l.Len() != 0 || !offer(3, 100) {
			t.Errorf("next offset %d, or a large message is not taken alone", l.Next())
		}
		if err := l.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A finished message behind an unfinished one takes no memory.
func TestLanesReleaseFinishedMessages(t *testing.T) {
	release := make(chan struct{})
	l := lanes.New(t.Context(), lanes.Config{Workers: lanes.NewWorkers(4), Handle: func(_ context.Context, m *inbox.Message) time.Duration {
		if m.Offset == 0 {
			<-release
		}
		return 0
	}})
	var offered []weak.Pointer[inbox.Message]
	for offset := range int64(50) {
		m := &inbox.Message{Offset: offset, Key: strconv.AppendInt(nil, offset%7, 10), Value: make([]byte, 1000)}
		if offset%7 == 0 && offset > 0 {
			m.Key = nil
		}
		l.Offer(m)
		offered = append(offered, weak.Make(m))
	}
	held := func() (n int) {
		for _, m := range offered {
			if m.Value() != nil {
				n++
			}
		}
		return n
	}
	deadline := time.Now().Add(time.Minute)
	for tick := time.NewTicker(5 * time.Millisecond); held() > 1 && time.Now().Before(deadline); <-tick.C {
		runtime.GC()
	}
	if n := held(); n > 1 || l.Len() != 50 {
		t.Errorf("%d messages are held, 1 is unfinished", n)
	}
	close(release)
	if err := l.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// A key that waits for its next attempt holds no worker, and a task waits in its key's lane.
func TestLanesWaitWithoutAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran []string
		tries := 0
		l := lanes.New(t.Context(), lanes.Config{Workers: lanes.NewWorkers(1), Handle: func(_ context.Context, m *inbox.Message) time.Duration {
			if tries++; tries == 1 {
				return time.Hour
			}
			ran = append(ran, string(m.Key)+strconv.FormatInt(m.Offset, 10))
			return 0
		}})
		l.Offer(&inbox.Message{Key: []byte("a"), Offset: 0})
		synctest.Wait()
		l.Do([]byte("a"), func(context.Context) time.Duration {
			ran = append(ran, "task")
			return 0
		})
		l.Offer(&inbox.Message{Key: []byte("a"), Offset: 1})
		l.Offer(&inbox.Message{Key: []byte("b"), Offset: 2})
		<-time.After(time.Hour)
		synctest.Wait()
		if want := []string{"b2", "a0", "task", "a1"}; !slices.Equal(ran, want) {
			t.Errorf("ran %v", ran)
		}
		if err := l.Stop(t.Context()); err != nil || l.Next() != 3 {
			t.Errorf("%v, next offset %d", err, l.Next())
		}
	})
}

// Stop waits for handlers until its context ends, then ends theirs.
func TestLanesStopHasALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lanes.New(t.Context(), lanes.Config{Handle: func(ctx context.Context, _ *inbox.Message) time.Duration {
			<-ctx.Done()
			return 1
		}})
		l.Offer(&inbox.Message{Offset: 7})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		if err := l.Stop(ctx); err == nil || time.Since(begun) != time.Minute || l.Next() != 7 {
			t.Errorf("%v after %v, next offset %d", err, time.Since(begun), l.Next())
		}
		synctest.Wait()
	})
}

// A lower offset would make Next wrong.
func TestLanesRefuseLowerOffsets(t *testing.T) {
	l := lanes.New(t.Context(), lanes.Config{Handle: func(context.Context, *inbox.Message) time.Duration { return 0 }})
	defer func() {
		if recover() == nil {
			t.Error("taken")
		}
		if err := l.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	l.Offer(&inbox.Message{Offset: 2})
	l.Offer(&inbox.Message{Offset: 2})
}

// What waits is one batch, keys in their order. What it does not finish is handled alone, with what is behind it, and so is a
// message that comes again. A task is in no batch.
func TestLanesBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran []string
		name := func(m *inbox.Message) string { return string(m.Key) + strconv.FormatInt(m.Offset, 10) }
		begin, tries := make(chan struct{}), 0
		l := lanes.New(t.Context(), lanes.Config{
			Batch: 6,
			Handle: func(_ context.Context, m *inbox.Message) time.Duration {
				if m.Offset == 0 {
					<-begin
				}
				ran = append(ran, name(m))
				if tries++; name(m) == "b2" && tries < 4 {
					return time.Minute
				}
				return 0
			},
			HandleBatch: func(_ context.Context, ms []*inbox.Message) (rest []*inbox.Message) {
				batch := ""
				for _, m := range ms {
					if batch += name(m) + " "; string(m.Key) == "b" {
						rest = append(rest, m)
					}
				}
				ran = append(ran, batch)
				return rest
			},
		})
		for offset, key := range []string{"x", "a", "b", "a", "c", "b", "a", "b", "a"} {
			l.Offer(&inbox.Message{Key: []byte(key), Offset: int64(offset)})
			if offset == 0 {
				synctest.Wait()
			}
			if offset == 6 {
				l.Do([]byte("a"), func(context.Context) time.Duration {
					ran = append(ran, "task")
					return 0
				})
			}
		}
		close(begin)
		<-time.After(time.Hour)
		if err := l.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if want := []string{"x0", "a1 a3 a6 b2 b5 b7 ", "c4", "task", "b2", "a8", "b2", "b5", "b7"}; !slices.Equal(ran, want) || l.Next() != 9 {
			t.Errorf("ran %q, next %d", ran, l.Next())
		}
	})
}

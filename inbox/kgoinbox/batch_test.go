package kgoinbox

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/writer"
)

// Many messages take few transactions. One that fails is parked alone, after its attempts; the others are handled. What a handler changes
// in its message is not seen by the next attempt.
func TestBatches(t *testing.T) {
	for _, bad := range []int64{-1, 400} {
		synctest.Test(t, func(t *testing.T) {
			const messages, keys = 800, 40
			db, o := &fakeDB{}, &ordered{T: t}
			begin := make(chan struct{})
			consumer, log := newFake(t, db, Config{Workers: 1, Batch: 100, Observer: o}, func(_ context.Context, _ *fakeTx, _ *writer.Unit, m *inbox.Message) error {
				<-begin
				if string(m.Value) != "value" || m.Headers[0].Key != "header" {
					t.Errorf("%d has the value %q and the headers %q", m.Offset, m.Value, m.Headers)
				}
				m.Value, m.Headers[0].Key = nil, ""
				if m.Offset == bad {
					return inbox.Permanent(errors.New("refused"))
				}
				if m.Attempt != 1 {
					t.Errorf("attempt %d of %d", m.Attempt, m.Offset)
				}
				return nil
			})
			p, _ := newFakePartition(t, consumer)
			for offset := range int64(messages) {
				m := message(offset)
				m.Key, m.Value, m.Headers = strconv.AppendInt(nil, offset%keys, 10), []byte("value"), []inbox.Header{{Key: "header"}}
				p.hold(m)
			}
			synctest.Wait()
			close(begin)
			<-time.After(time.Minute)
			want, most := map[Outcome]int{Handled: messages}, int64(20)
			if bad >= 0 {
				want, most = map[Outcome]int{Handled: messages - 1, Parked: 1}, 150 // a hundred alone
			}
			if p.lanes.Next() != messages || db.begun.Load() > most || !maps.Equal(o.outcomes(), want) || p.memory.used.Load() != 0 {
				t.Errorf("next %d, %d transactions, %v, want %v, %d bytes are left\n%s", p.lanes.Next(), db.begun.Load(), o.outcomes(), want, p.memory.used.Load(), log)
			}
			must(t, p.stop(t.Context()))
		})
	}
}

// A repeat may be parked by another owner: what is behind it in a batch must not be handled before that is known.
func TestRepeatsInABatch(t *testing.T) {
	for name, c := range map[string]struct {
		parked bool
		want   map[Outcome]int
	}{
		"handled before": {false, map[Outcome]int{Handled: 14, Repeat: 7}},
		"parked":         {true, map[Outcome]int{Handled: 13, Parked: 1, Repeat: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, o := &fakeDB{}, new(counts)
				begin := make(chan struct{})
				var handled []int64
				consumer, log := newFake(t, db, Config{Workers: 1, Batch: 100, Observer: o, RetryInterval: time.Hour}, func(_ context.Context, _ *fakeTx, _ *writer.Unit, m *inbox.Message) error {
					<-begin
					handled = append(handled, m.Offset)
					return nil
				})
				var batch []*inbox.Message
				for offset := range int64(20) {
					m := message(offset + 1)
					if offset%3 == 0 {
						db.recorded = append(db.recorded, m.ID)
					}
					if offset == 3 || offset == 4 { // a repeat and a new one
						m.Key = []byte("a")
					}
					batch = append(batch, m)
				}
				p, _ := newFakePartition(t, consumer)
				p.hold(message(0))
				synctest.Wait()
				if c.parked { // by another owner, when this one has looked for blocked keys
					db.park(t, batch[3])
				}
				for _, m := range batch {
					p.hold(m)
				}
				synctest.Wait()
				close(begin)
				<-time.After(time.Minute)
				if !maps.Equal(o.outcomes(), c.want) || p.lanes.Next() != 21 {
					t.Errorf("%v, want %v, next %d, handled %d\n%s", o.outcomes(), c.want, p.lanes.Next(), handled, log)
				}
				must(t, p.stop(t.Context()))
			})
		})
	}
}

// While the database fails, a batch waits as one message does, and is tried as a batch again.
func TestBatchInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, o := &fakeDB{}, new(counts)
		consumer, log := newFake(t, db, Config{Batch: 100, Observer: o}, func(context.Context, *fakeTx, *writer.Unit, *inbox.Message) error { return nil })
		p, _ := newFakePartition(t, consumer)
		db.set(errors.New("connection refused"), nil)
		for offset := range int64(900) {
			p.hold(message(offset))
		}
		<-time.After(5 * time.Minute)
		tries := db.begun.Load()
		db.set(nil, nil)
		<-time.After(time.Minute)
		if said := log.String(); tries > 40 || db.begun.Load() > tries+30 || o.outcomes()[Handled] != 900 {
			t.Errorf("%d tries, then %d, %v\n%s", tries, db.begun.Load()-tries, o.outcomes(), said)
		}
		must(t, p.stop(t.Context()))
	})
}

// counts counts outcomes of many messages.
type counts struct{ n sync.Map }

func (c *counts) Handled(_ *inbox.Message, o Outcome, _ time.Duration, _ error) {
	n, _ := c.n.LoadOrStore(o, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}

// ordered verifies that the messages of a key are handled in order.
type ordered struct {
	*testing.T
	counts

	last map[string]int64 // by key; there is one worker
}

func (o *ordered) Handled(m *inbox.Message, what Outcome, took time.Duration, err error) {
	o.counts.Handled(m, what, took, err)
	if what != Handled {
		return
	}
	if o.last == nil {
		o.last = map[string]int64{}
	}
	if key := string(m.Key); m.Offset < o.last[key] {
		o.Errorf("%d after %d", m.Offset, o.last[key])
	} else {
		o.last[key] = m.Offset
	}
}

func (*counts) InFlight(string, int32, int) {}

func (c *counts) outcomes() map[Outcome]int {
	all := map[Outcome]int{}
	c.n.Range(func(o, n any) bool {
		all[o.(Outcome)] = int(n.(*atomic.Int64).Load())
		return true
	})
	return all
}

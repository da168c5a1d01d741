package kgoinbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/writer"
)

// franz-go has no way to make it go back at will.
func TestOffsetsThatFallEndRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newFake(t, &fakeDB{}, Config{}, func(ctx context.Context, _ *fakeTx, _ *writer.Unit, _ *inbox.Message) error {
			<-ctx.Done()
			return ctx.Err()
		})
		p, ended := newFakePartition(t, c)
		for _, offset := range []int64{5, 6, 9} {
			p.hold(message(offset))
		}
		synctest.Wait()
		if ended.Err() != nil || p.lanes.Len() != 3 {
			t.Fatalf("%d messages: %v", p.lanes.Len(), context.Cause(ended))
		}
		p.hold(message(8))
		synctest.Wait()
		if err := context.Cause(ended); err == nil || !strings.Contains(err.Error(), "record orders[0]@8 came after offset 9") || !strings.Contains(err.Error(), "drop parked messages") || p.lanes.Len() != 3 {
			t.Errorf("%d messages: %v", p.lanes.Len(), err)
		}
		stopNow(t, p)
	})
}

// stopNow stops a partition whose handlers have not ended.
func stopNow(t *testing.T, p *partition[*fakeTx]) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = p.stop(ctx)
}

func TestConsumerWithoutHandlers(t *testing.T) {
	if _, err := New[int](nil, nil, Config{}); err == nil || !strings.Contains(err.Error(), "the registry is nil") {
		t.Error(err)
	}
}

type sqlState string

func (s sqlState) Error() string { return "SQLSTATE " + string(s) }

func (s sqlState) SQLState() string { return string(s) }

// While the database fails, one worker tries, after pauses that double, and a few lines say so. Then all go on, also if a handler
// hangs, and so after the next outage. Reads that succeed do not end an outage of writes.
func TestOneTriesWhileTheDatabaseFails(t *testing.T) {
	for name, c := range map[string]struct{ down, readOnly error }{
		"away":      {down: errors.New("connection refused")},
		"read-only": {readOnly: sqlState("25006")},
	} {
		for _, parked := range []bool{false, true} { // parked messages are looked for
			t.Run(fmt.Sprint(name, ", parked ", parked), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					db := &fakeDB{}
					if parked {
						db.park(t, message(-1))
					}
					var handled atomic.Int64
					hang := make(chan struct{})
					consumer, log := newFake(t, db, Config{}, func(context.Context, *fakeTx, *writer.Unit, *inbox.Message) error {
						if handled.Add(1) == 1 {
							<-hang
						}
						return nil
					})
					p, ended := newFakePartition(t, consumer)
					db.set(c.down, c.readOnly)
					messages := int64(500)
					if parked {
						messages = 7 // so that reads of the parked one often have the turn
					}
					for offset := range messages {
						p.hold(message(offset))
					}
					<-time.After(10*time.Minute + time.Second)
					said, tries := strings.Count(log.String(), "\n"), db.tries.Load()
					if tries < 20 || tries > 70 || said < 7 || said > 11 || strings.Contains(log.String(), "recovered") || handled.Load() != 0 { // the last pauses are of 15 to 30 s
						t.Errorf("%d tries, %d handled\n%s", tries, handled.Load(), log)
					}
					db.set(nil, nil)
					<-time.After(time.Minute)
					if n := handled.Load(); n < messages || strings.Count(log.String(), "\n") != said+1 || !strings.Contains(log.String(), "recovered: database fails") || ended.Err() != nil {
						t.Errorf("%d handled\n%s", n, log)
					}
					db.set(c.down, c.readOnly)
					for offset := range int64(5) {
						p.hold(message(messages + offset))
					}
					<-time.After(time.Second)
					db.set(nil, nil)
					<-time.After(time.Minute)
					if n := handled.Load(); n < messages+5 {
						t.Errorf("%d handled after the next outage\n%s", n, log)
					}
					close(hang)
					must(t, p.stop(t.Context()))
				})
			})
		}
	}
}

// A partition that is given up does not wait for the database.
func TestPartitionIsGivenUpWhileTheDatabaseFails(t *testing.T) {
	for _, db := range []*fakeDB{{down: errors.New("connection refused")}, {hangs: true}} {
		synctest.Test(t, func(t *testing.T) {
			c, _ := newFake(t, db, Config{Backoff: time.Hour, MaxBackoff: time.Hour}, nil)
			p, _ := newFakePartition(t, c)
			for offset := range int64(50) {
				p.hold(message(offset))
			}
			<-time.After(time.Second)
			begun := time.Now()
			must(t, p.stop(t.Context()))
			if time.Since(begun) != 0 || p.lanes.Next() > 0 {
				t.Errorf("%v later, next offset %d", time.Since(begun), p.lanes.Next())
			}
		})
	}
}

// A topic that is not there for 30 s ends Run. What franz-go reports again and again is logged when it begins, each minute, and when
// it has ended.
func TestFetchErrors(t *testing.T) {
	reset := fmt.Errorf("read tcp 127.0.0.1:40000: %w", errors.New("connection reset"))
	for name, c := range map[string]struct {
		err   error
		lasts time.Duration
		ends  string
		lines int
	}{
		"made anew":        {kerr.UnknownTopicID, time.Minute, "the topic was deleted, or deleted and made anew: drop parked messages", 1},
		"deleted":          {fmt.Errorf("wrapped: %w", kerr.UnknownTopicOrPartition), time.Minute, "the topic was deleted", 1},
		"just made":        {kerr.UnknownTopicID, 20 * time.Second, "", 2},
		"broker restarts":  {reset, 5*time.Minute + time.Second, "", 7},
		"refused by Kafka": {kerr.TopicAuthorizationFailed, 0, "READ on the topic", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				consumer, log := newFake(t, &fakeDB{}, Config{}, nil)
				p, ended := newFakePartition(t, consumer)
				for begun := time.Now(); ended.Err() == nil && time.Since(begun) <= c.lasts; <-time.After(fetchPause) {
					for partition := range int32(3) {
						p.fetchError("orders", partition, c.err)
					}
					p.troubles.sweep(fetchFails, fetchesAgain)
				}
				<-time.After(fetchesAgain)
				if ended.Err() == nil {
					p.troubles.sweep(fetchFails, fetchesAgain)
				}
				if cause := context.Cause(ended); (cause != nil) != (c.ends != "") || (cause != nil && !strings.Contains(cause.Error(), c.ends)) || strings.Count(log.String(), "\n") != c.lines {
					t.Errorf("%v\n%s", context.Cause(ended), log)
				}
				must(t, p.stop(t.Context()))
			})
		})
	}
}

// More parked keys than one look finds are handled without waiting for the next look.
func TestRetryOfManyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &fakeDB{}
		const keys = 1050
		for offset := range int64(keys) {
			db.park(t, message(offset))
		}
		var handled atomic.Int64
		c, _ := newFake(t, db, Config{RetryInterval: time.Hour}, func(context.Context, *fakeTx, *writer.Unit, *inbox.Message) error {
			handled.Add(1)
			return nil
		})
		p, _ := newFakePartition(t, c)
		<-time.After(time.Hour + time.Minute)
		if n := handled.Load(); n != keys {
			t.Errorf("%d of %d are handled", n, keys)
		}
		must(t, p.stop(t.Context()))
	})
}

// A full look of which nothing is free, because each key's retry is in its lane already or none is ready, is no reason to look again before
// the next interval.
func TestRetryWithoutBusyLoop(t *testing.T) {
	for name, ready := range map[string]bool{"in their lanes": true, "none is ready": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := &fakeDB{nothingReady: !ready}
				for offset := range int64(readyRows) {
					db.park(t, message(offset))
				}
				release := make(chan struct{})
				c, _ := newFake(t, db, Config{Workers: 1, Timeout: -1, RetryInterval: time.Minute}, func(context.Context, *fakeTx, *writer.Unit, *inbox.Message) error {
					<-release
					return nil
				})
				p, _ := newFakePartition(t, c)
				<-time.After(time.Hour + time.Second)
				if n := db.looks.Load(); n < 59 || n > 61 {
					t.Errorf("%d looks in an hour", n)
				}
				close(release)
				<-time.After(time.Minute)
				if n := len(db.parked); (n == 0) != ready {
					t.Errorf("%d are parked", n)
				}
				must(t, p.stop(t.Context()))
			})
		})
	}
}

// panics is an observer with a fault.
type panics struct{}

func (panics) Handled(*inbox.Message, Outcome, time.Duration, error) { panic("no such metric") }

func (panics) InFlight(string, int32, int) { panic("no such metric") }

func TestObserverThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled atomic.Int64
		c, log := newFake(t, &fakeDB{}, Config{Observer: panics{}}, func(context.Context, *fakeTx, *writer.Unit, *inbox.Message) error {
			handled.Add(1)
			return nil
		})
		p, _ := newFakePartition(t, c)
		for offset := range int64(10) {
			p.hold(message(offset))
		}
		synctest.Wait()
		must(t, p.stop(t.Context()))
		if handled.Load() != 10 || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "no such metric") {
			t.Errorf("%d handled\n%s", handled.Load(), log)
		}
	})
}

// Only a message without source or ID ends Run. One with another attribute that is not valid is parked.
func TestOddHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		headers []string
		want    Outcome // "" ends Run
	}{
		"valid":                 {[]string{"ce_id", "1", "ce_source", "/s", "ce_time", "2026-11-27T15:00:00Z"}, Handled},
		"time":                  {[]string{"ce_id", "1", "ce_source", "/s", "ce_time", "2026-11-27 15:00:00"}, Parked},
		"two subjects":          {[]string{"ce_id", "1", "ce_source", "/s", "ce_subject", "a", "ce_subject", "b"}, Parked},
		"two IDs":               {[]string{"ce_id", "1", "ce_source", "/s", "ce_id", "2"}, ""},
		"two IDs and one's own": {[]string{"ce_id", "1", "ce_source", "/s", "ce_id", "2", "own", "3"}, Handled},
		"one's own is empty":    {[]string{"ce_id", "1", "ce_source", "/s", "own", ""}, ""},
		"no source":             {[]string{"ce_id", "1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := outcomes{}
				consumer, log := newFake(t, &fakeDB{}, Config{IDFrom: []string{"own"}, Observer: o}, func(context.Context, *fakeTx, *writer.Unit, *inbox.Message) error { return nil })
				p, ended := newFakePartition(t, consumer)
				r := &kgo.Record{Topic: "orders", Key: []byte("k")}
				for i := 0; i < len(c.headers); i += 2 {
					r.Headers = append(r.Headers, kgo.RecordHeader{Key: c.headers[i], Value: []byte(c.headers[i+1])})
				}
				p.hold(p.config.message(r))
				synctest.Wait()
				if (c.want == "") != (ended.Err() != nil) || (c.want != "" && o[c.want] != 1) {
					t.Errorf("%v, %v\n%s", o, context.Cause(ended), log)
				}
				must(t, p.stop(t.Context()))
			})
		})
	}
}

// outcomes counts those of one message.
type outcomes map[Outcome]int

func (c outcomes) Handled(_ *inbox.Message, o Outcome, _ time.Duration, _ error) { c[o]++ }

func (outcomes) InFlight(string, int32, int) {}

// With the defaults a handler may fail for 4 minutes before its message is parked; a few lines say so.
func TestBackoffOutlivesMinutes(t *testing.T) {
	for name, c := range map[string]struct {
		works time.Duration // since the first attempt
		want  Outcome
	}{"4 minutes": {4 * time.Minute, Handled}, "for ever": {time.Hour, Parked}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, begun := outcomes{}, time.Now()
				var last time.Duration
				consumer, log := newFake(t, &fakeDB{}, Config{Observer: o}, func(context.Context, *fakeTx, *writer.Unit, *inbox.Message) error {
					if last = time.Since(begun); last < c.works {
						return errors.New("the carrier is away")
					}
					return nil
				})
				p, _ := newFakePartition(t, consumer)
				p.hold(message(0))
				<-time.After(20 * time.Minute)
				if o[c.want] != 1 || o[Failed] > 24 || last < 4*time.Minute || last > 510*time.Second || strings.Count(log.String(), "\n") > 6 {
					t.Errorf("%v, last after %v\n%s", o, last, log)
				}
				must(t, p.stop(t.Context()))
			})
		})
	}
}

// A handler says when it wants to be called again, also later than MaxBackoff. Permanent counts more.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var calls []time.Duration
		consumer, _ := newFake(t, &fakeDB{}, Config{}, func(context.Context, *fakeTx, *writer.Unit, *inbox.Message) error {
			calls = append(calls, time.Since(begun))
			err := fmt.Errorf("busy: %w", inbox.RetryAfter(time.Hour))
			if len(calls) == 3 {
				err = inbox.Permanent(err)
			}
			return err
		})
		p, _ := newFakePartition(t, consumer)
		p.hold(message(0))
		<-time.After(24 * time.Hour)
		if want := []time.Duration{0, time.Hour, 2 * time.Hour}; !slices.Equal(calls, want) {
			t.Errorf("called after %v", calls)
		}
		must(t, p.stop(t.Context()))
	})
}

// A handler that takes too long has failed, as any other; that is no outage of the database.
func TestTimeout(t *testing.T) {
	for timeout, want := range map[time.Duration]outcomes{0: {Failed: 1, Parked: 1, Handled: 1}, -1: {Handled: 1}} {
		synctest.Test(t, func(t *testing.T) {
			o := outcomes{}
			consumer, log := newFake(t, &fakeDB{}, Config{Workers: 2, Attempts: 2, Timeout: timeout, Observer: o}, func(ctx context.Context, _ *fakeTx, _ *writer.Unit, m *inbox.Message) error {
				if m.Offset == 0 {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			})
			p, _ := newFakePartition(t, consumer)
			p.hold(message(0))
			p.hold(message(1))
			<-time.After(3 * time.Minute)
			if !maps.Equal(o, want) || strings.Contains(log.String(), databaseFails) || strings.Contains(log.String(), "took longer than Config.Timeout (1m0s)") != (timeout == 0) {
				t.Errorf("%v\n%s", o, log)
			}
			stopNow(t, p)
		})
	}
}

// lockHeld is what a database says of a record that another transaction has.
type lockHeld struct{ error }

func (lockHeld) SQLState() string { return "55P03" }

// While another transaction has the message's record, its handler is not called, and that is no attempt.
func TestRecordIsLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, db, attempt := outcomes{}, &fakeDB{readOnly: lockHeld{errors.New("lock not available")}}, 0
		consumer, _ := newFake(t, db, Config{Attempts: 2, Observer: o}, func(_ context.Context, _ *fakeTx, _ *writer.Unit, m *inbox.Message) error {
			attempt = m.Attempt
			return nil
		})
		p, _ := newFakePartition(t, consumer)
		p.hold(message(0))
		<-time.After(time.Minute)
		db.set(nil, nil)
		<-time.After(time.Minute)
		stopNow(t, p)
		if attempt != 1 || o[Handled] != 1 || o[Parked] != 0 {
			t.Errorf("attempt %d, %v", attempt, o)
		}
	})
}

// The owner of partition 0 deletes old rows.
func TestKeep(t *testing.T) {
	if _, err := New(new(inbox.Inbox[*fakeTx]), new(inbox.Registry[*fakeTx]), Config{Keep: -1}); err == nil || !strings.Contains(err.Error(), "Keep is -1ns") {
		t.Error(err)
	}
	for partition, want := range []int{6, 0} {
		synctest.Test(t, func(t *testing.T) {
			db := &fakeDB{}
			consumer, log := newFake(t, db, Config{Keep: 24 * time.Hour}, nil)
			p, _ := newFakePartition(t, consumer)
			p.partitions[topicPartition{"orders", int32(partition)}] = p
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour+time.Minute)
			defer cancel()
			p.purgeRegularly(ctx)
			if db.purged != want || log.String() != "" {
				t.Errorf("partition %d: purged %d times\n%s", partition, db.purged, log)
			}
			must(t, p.stop(t.Context()))
		})
	}
}

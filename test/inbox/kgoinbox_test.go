package inbox_test

import (
	"context"
	crand "crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/kgoinbox"
	"github.com/cdc-relay/cdc-relay/inbox/parking"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

// A record that cannot be recorded, or not handled where Stop is set, ends Run before its offset is committed; so do a missing
// table and a missing group.
func TestWhatEndsRun(t *testing.T) {
	refuse := func(context.Context, *sql.Tx, *writer.Unit, *inbox.Message) error {
		return inbox.Permanent(errors.New("refused"))
	}
	header := func(h ...string) (all []kgo.RecordHeader) {
		for i := 0; i < len(h); i += 2 {
			all = append(all, kgo.RecordHeader{Key: h[i], Value: []byte(h[i+1])})
		}
		return all
	}
	db := newDatabase(t, servers[0])
	for name, c := range map[string]struct {
		headers []kgo.RecordHeader
		handler inbox.Handler[*sql.Tx]
		change  func(*kgoinbox.Config)
		table   string
		want    string
		invalid bool
	}{
		"Stop":       {headers: header("ce_source", "/s", "ce_id", "1"), handler: refuse, change: func(c *kgoinbox.Config) { c.Stop = true }, want: "[0]@1: refused: repair the handler"},
		"no ID":      {headers: header("ce_source", "/s"), want: "[0]@1: ID is empty: set it; records of cdc-relay have the headers", invalid: true},
		"no table":   {table: "nowhere", want: "schema print --inbox"},
		"no parking": {change: func(c *kgoinbox.Config) { c.Parking = append(c.Parking, parking.WithTable("nowhere")) }, want: "schema print --inbox"},
		"no group":   {change: func(c *kgoinbox.Config) { c.Client = c.Client[:1] }, want: "needs kgo.ConsumerGroup"},
	} {
		t.Run(name, func(t *testing.T) {
			c1 := newConsumption(t, db, 1)
			c1.send(0, "a first"+name)
			testenv.Must(t, c1.admin.ProduceSync(t.Context(), &kgo.Record{Topic: c1.topic, Key: []byte("a"), Headers: c.headers}).FirstErr())
			c1.send(0, "a after"+name)
			var opts []inbox.Option
			if c.table != "" {
				opts = append(opts, inbox.WithTable(c.table))
			}
			handler := func(ctx context.Context, tx *sql.Tx, _ *writer.Unit, m *inbox.Message) error {
				if c.handler != nil && m.Offset == 1 {
					return c.handler(ctx, tx, nil, m)
				}
				return effect(ctx, tx, nil, m)
			}
			stop, ended := c1.start(handler, c.change, opts...)
			<-ended
			if err := stop(); err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, inbox.ErrInvalidMessage) != c.invalid {
				t.Errorf("Run: %v", err)
			}
			if n := db.count(t, "effects WHERE message = 'after"+name+"'"); n != 0 || c1.committed(0) > 1 {
				t.Errorf("the record behind it was handled %d times, the offset is %d", n, c1.committed(0))
			}
		})
	}
}

// When Run is asked to end, handlers have until Config.Drain; what they do not finish is handled by the next consumer.
func TestHandlersDrain(t *testing.T) {
	for name, finishes := range map[string]bool{"finishes": true, "is cut off": false} {
		t.Run(name, func(t *testing.T) {
			c := newConsumption(t, newDatabase(t, servers[0]), 1)
			c.send(0, "a 1")
			begun, end := make(chan struct{}), make(chan struct{})
			stop, _ := c.start(func(ctx context.Context, tx *sql.Tx, _ *writer.Unit, m *inbox.Message) error {
				close(begun)
				select {
				case <-end:
				case <-ctx.Done():
					return ctx.Err()
				}
				return effect(ctx, tx, nil, m)
			}, func(k *kgoinbox.Config) {
				if !finishes {
					k.Drain = time.Millisecond
				}
			})
			<-begun
			if finishes {
				time.AfterFunc(50*time.Millisecond, func() { close(end) })
			}
			testenv.Must(t, stop())
			if n, next := c.count(t, "effects"), c.committed(0); (next == 1) != finishes || (n == 1) != finishes {
				t.Errorf("offset %d, %d effects", next, n)
			}
			c.send(0, "a 2")
			stop, _ = c.start(effect, nil)
			c.await("both are handled", func() bool { return c.committed(0) == 2 })
			testenv.Must(t, stop())
			if n, parked := c.count(t, "effects"), c.count(t, "inbox_parked"); n != 2 || parked != 0 {
				t.Errorf("%d effects, %d parked", n, parked)
			}
		})
	}
}

// A partition goes to another consumer when its handlers have ended and their offsets are committed: nothing is handed out again.
func TestRevokedPartitionDrains(t *testing.T) {
	c := newConsumption(t, newDatabase(t, servers[0]), 2)
	c.send(0, "a 1")
	c.send(1, "b 2")
	gate := make(chan struct{})
	var o [2]seen
	var working atomic.Int64
	slow := func(ctx context.Context, tx *sql.Tx, _ *writer.Unit, m *inbox.Message) error {
		working.Add(1)
		<-gate
		return effect(ctx, tx, nil, m)
	}
	first, _ := c.start(slow, func(k *kgoinbox.Config) { k.Observer = &o[0] })
	c.await("both partitions have work", func() bool { return working.Load() == 2 })
	second, _ := c.start(effect, func(k *kgoinbox.Config) { k.Observer = &o[1] })
	c.await("the first consumer has lost a partition to the second", func() bool {
		groups, err := kadm.NewClient(c.admin).DescribeGroups(t.Context(), c.topic)
		members := groups[c.topic].Members
		return err == nil && len(members) == 2 && assigned(members[0])+assigned(members[1]) == 1
	})
	time.AfterFunc(200*time.Millisecond, func() { close(gate) }) // a consumer that does not wait for its handlers has given up the partition then
	c.await("both are committed", func() bool { return c.committed(0) == 1 && c.committed(1) == 1 })
	c.send(0, "a 3")
	c.send(1, "b 4")
	c.await("all are handled", func() bool { return c.count(t, "effects") == 4 && c.committed(0) == 2 && c.committed(1) == 2 })
	testenv.Must(t, errors.Join(first(), second()))
	if !slices.Contains(o[0].outcomes, "1 handled 1 <nil>") || !slices.Contains(o[0].outcomes, "2 handled 1 <nil>") || len(o[0].outcomes)+len(o[1].outcomes) != 4 {
		t.Errorf("the first consumer: %q, the second: %q", o[0].outcomes, o[1].outcomes)
	}
}

// assigned is how many partitions a member has, 0 if the group is not stable.
func assigned(m kadm.DescribedGroupMember) (n int) {
	if a, ok := m.Assigned.AsConsumer(); ok {
		for _, t := range a.Topics {
			n += len(t.Partitions)
		}
	}
	return n
}

// A partition whose handlers do not keep up is paused: what was polled stays bounded, and other partitions go on.
func TestFullPartitionIsPaused(t *testing.T) {
	c := newConsumption(t, newDatabase(t, servers[0]), 2)
	const slow, fast = 3500, 100
	var ids [2][]string
	for i := range slow {
		ids[0] = append(ids[0], fmt.Sprintf("k%d slow%d", i%10, i))
	}
	for i := range fast {
		ids[1] = append(ids[1], fmt.Sprintf("k%d fast%d", i%10, i))
	}
	for batch := range slices.Chunk(ids[0], 100) { // Kafka returns whole batches
		c.send(0, batch...)
	}
	c.send(1, ids[1]...)
	var o seen
	gate := make(chan struct{})
	handled := [2]atomic.Int64{}
	stop, _ := c.start(func(_ context.Context, _ *sql.Tx, _ *writer.Unit, m *inbox.Message) error {
		if m.Partition == 0 {
			<-gate
		}
		handled[m.Partition].Add(1)
		return nil
	}, func(k *kgoinbox.Config) {
		k.Client = append(k.Client, kgo.FetchMaxPartitionBytes(10_000)) // about 200 records
		k.Workers, k.Count, k.Observer = 12, 10, &o
	})
	inFlight := o.get(func(s *seen) int { return s.inFlight })
	c.await("the fast partition is handled, and the slow one is full", func() bool { return handled[1].Load() == fast && inFlight() >= 1000 })
	close(gate)
	c.await("the slow partition is handled", func() bool { return handled[0].Load() == slow })
	testenv.Must(t, stop())
	if n := inFlight(); n > 2500 {
		t.Errorf("%d messages of a partition were polled and not handled", n)
	}
	if c.committed(0) != slow || c.committed(1) != fast {
		t.Errorf("offsets %d and %d", c.committed(0), c.committed(1))
	}
}

// With a full parking messages wait, others go on, and it is said.
func TestFullParking(t *testing.T) {
	c := newConsumption(t, newDatabase(t, servers[0]), 1)
	c.send(0, "a a1", "b b1", "a a2", "b b2", "c c1")
	var repaired atomic.Bool
	var o seen
	stop, _ := c.start(func(ctx context.Context, tx *sql.Tx, _ *writer.Unit, m *inbox.Message) error {
		if m.ID[0] != 'c' && !repaired.Load() {
			return inbox.Permanent(errors.New("refused"))
		}
		return effect(ctx, tx, nil, m)
	}, func(k *kgoinbox.Config) { k.Parking, k.Observer = append(k.Parking, parking.WithLimit(1)), &o })
	full := o.get(func(s *seen) int { return s.full })
	c.await("the parking is full and other keys are handled", func() bool { return full() > 3 && c.count(t, "effects") == 1 })
	if n := c.count(t, "inbox_parked"); n > 2 { // two at once do not count each other
		t.Errorf("%d are parked", n)
	}
	repaired.Store(true)
	p := newParked(t, writer.SQL(c.conn, c.dialect), "c")
	c.await("all are handled", func() bool {
		_, err := p.Retry(t.Context(), parking.Filter{})
		testenv.Must(t, err)
		return c.count(t, "effects") == 5 && c.committed(0) == 5
	})
	testenv.Must(t, stop())
	if n := c.count(t, "inbox_parked"); n != 0 {
		t.Errorf("%d are parked", n)
	}
}

// While the database cannot be reached, nothing is parked, and no attempt counts, also of a handler whose connection is lost.
func TestDatabaseOutage(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		c := newConsumption(t, db, 1)
		proxy := testenv.Proxy(t, db.addr())
		c.dsn = strings.ReplaceAll(c.dsn, db.addr(), proxy.Addr())
		const keys, each = 20, 15
		for i := range each {
			var ids []string
			for k := range keys {
				ids = append(ids, fmt.Sprintf("k%d %d-%d", k, k, i))
			}
			c.send(0, ids...)
		}
		var o seen
		const cuts = 3
		stop, _ := c.start(func(ctx context.Context, tx *sql.Tx, _ *writer.Unit, m *inbox.Message) error {
			return errors.Join(effect(ctx, tx, nil, m), effect(ctx, tx, nil, m))
		}, func(k *kgoinbox.Config) { k.Attempts, k.Observer = cuts+1, &o }) // a connection that is lost counts if the database is back at once
		outages := o.get(func(s *seen) int { return s.outages })
		for cut := range cuts {
			c.await("work goes on", func() bool { return c.count(t, "effects") > cut*80 })
			before := outages()
			proxy.Cut()
			c.await("the database was tried more often than messages are", func() bool { return outages() > before+8*(cuts+2) })
			testenv.Must(t, proxy.Restore())
		}
		c.await("all are handled", func() bool { return c.committed(0) == keys*each })
		testenv.Must(t, stop())
		if n, parked := c.count(t, "effects"), c.count(t, "inbox_parked"); n != 2*keys*each || parked != 0 {
			cdctest.Violation(t, cdctest.Lost, "%d effects, %d parked", n, parked)
		}
	})
}

// An observer sees each attempt.
func TestObserver(t *testing.T) {
	c := newConsumption(t, newDatabase(t, servers[0]), 1)
	c.send(0, "a 1", "a 2", "b 3", "b 3")
	var o seen
	var repaired atomic.Bool
	stop, _ := c.start(func(ctx context.Context, tx *sql.Tx, _ *writer.Unit, m *inbox.Message) error {
		if m.ID == "1" && !repaired.Load() {
			return errors.New("refused")
		}
		return effect(ctx, tx, nil, m)
	}, func(k *kgoinbox.Config) { k.Attempts, k.Observer = 2, &o })
	c.await("offsets are committed", func() bool { return c.committed(0) == 4 })
	repaired.Store(true)
	_, err := newParked(t, writer.SQL(c.conn, c.dialect), "c").Retry(t.Context(), parking.Filter{IDs: []inbox.MessageID{{Source: "/s", ID: "1"}}})
	testenv.Must(t, err)
	c.await("nothing is parked", func() bool { return c.count(t, "inbox_parked") == 0 })
	testenv.Must(t, stop())
	if o.inFlight == 0 || o.now != 0 {
		t.Errorf("at most %d in flight, %d in the end", o.inFlight, o.now)
	}
	slices.Sort(o.outcomes)
	if got, want := strings.Join(o.outcomes, "\n"), strings.Join([]string{
		"1 failed 1 refused", "1 handled 3 <nil>", "1 parked 2 refused", "2 handled 1 <nil>", "2 parked 0 <nil>", "3 handled 1 <nil>", "3 repeat 1 <nil>",
	}, "\n"); got != want {
		t.Errorf("seen\n%s\nwant\n%s", got, want)
	}
}

// A topic that does not exist yet is named in the log, and consumed once it does.
func TestMissingTopic(t *testing.T) {
	c := newConsumption(t, newDatabase(t, servers[0]), 0)
	stop, _ := c.start(effect, nil)
	c.await("the topic is named", func() bool {
		return strings.Contains(c.log.String(), "topic does not exist") && strings.Contains(c.log.String(), c.topic)
	})
	testenv.Must(t, kafka.CreateTopic(t.Context(), c.topic, 1, nil))
	c.send(0, "a 1")
	c.await("it is consumed", func() bool { return c.count(t, "effects") == 1 })
	testenv.Must(t, stop())
}

// A topic that is deleted and made anew has other records at the same offsets: Run ends, and says it in a few lines. The next Run consumes
// the new topic.
func TestTopicMadeAnew(t *testing.T) {
	t.Parallel()
	c := newConsumption(t, newDatabase(t, servers[0]), 1)
	c.send(0, "a 1")
	stop, ended := c.start(effect, nil)
	c.await("the record is handled", func() bool { return c.committed(0) == 1 })
	admin := kadm.NewClient(c.admin)
	_, err := admin.DeleteTopics(t.Context(), c.topic)
	testenv.Must(t, err)
	c.await("the topic is made anew", func() bool { return kafka.CreateTopic(t.Context(), c.topic, 1, nil) == nil })
	c.await("Run ends", func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
	if err := stop(); err == nil || !strings.Contains(err.Error(), "the topic was deleted") || strings.Count(c.log.String(), "msg=fetch") != 1 {
		t.Errorf("%v\n%s", err, c.log.String())
	}
	stop, _ = c.start(effect, nil)
	producer, err := kgo.NewClient(kgo.SeedBrokers(kafka.Bootstrap()...))
	testenv.Must(t, err)
	defer producer.Close()
	testenv.Must(t, producer.ProduceSync(t.Context(), sent(c.topic, 0, "", "2", nil)).FirstErr())
	c.await("a record of the new topic is handled", func() bool { return c.count(t, "effects") == 2 })
	testenv.Must(t, stop())
}

// Config.Bytes bounds what a consumer holds of all partitions, also while no handler ends.
func TestMemoryOfManyPartitions(t *testing.T) {
	const partitions, each, size, bound = 50, 6, 200 << 10, 4 << 20 // 60 MB
	c := newConsumption(t, newDatabase(t, servers[0]), partitions)
	for p := range int32(partitions) {
		var records []*kgo.Record
		for i := range each {
			id := fmt.Sprintf("%d-%d", p, i)
			value := make([]byte, size)
			_, _ = crand.Read(value) // nothing to compress
			records = append(records, sent(c.topic, p, id, id, value))
		}
		testenv.Must(t, c.admin.ProduceSync(t.Context(), records...).FirstErr())
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	var running, handled atomic.Int64
	gate := make(chan struct{})
	stop, _ := c.start(func(context.Context, *sql.Tx, *writer.Unit, *inbox.Message) error {
		running.Add(1)
		<-gate
		handled.Add(1)
		return nil
	}, func(k *kgoinbox.Config) { k.Bytes = bound })
	c.await("all workers work", func() bool { return running.Load() == 8 })
	most := int64(0)
	for deadline, tick := time.Now().Add(3*time.Second), time.NewTicker(50*time.Millisecond); time.Now().Before(deadline); <-tick.C {
		most = max(most, heap()-before)
	}
	t.Logf("%d MiB of 60 are held, the bound is 4 MiB", most>>20)
	if most > bound+8<<20 { // with what one poll returns, and the client's next fetch: whole batches of up to 1 MiB
		t.Errorf("%d MiB are held", most>>20)
	}
	close(gate)
	c.await("all are handled", func() bool { return handled.Load() == partitions*each })
	testenv.Must(t, stop())
}

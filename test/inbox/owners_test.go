package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/kgoinbox"
	"github.com/cdc-relay/cdc-relay/inbox/parking"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

// Two groups whose consumers have one name in the inbox both own every partition all the time, as an owner that was stopped by the
// system and its successor do for a moment. Each effect happens once and in its key's order, and after a retry of all nothing is parked.
func TestTwoOwners(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		c := newConsumption(t, db, 0)
		producer, option := newChains(t, db, c.topic)
		var stops [2]func() error
		for i := range stops {
			stops[i], _ = c.start(link(15), func(k *kgoinbox.Config) {
				k.Client = append(k.Client, kgo.ConsumerGroup(c.topic+"-"+strconv.Itoa(i)))
				k.RetryInterval, k.Batch = 5*time.Millisecond, 20*i // one handles batches
			}, option)
		}
		const rounds = 3
		p := newParked(t, writer.SQL(db.conn, db.dialect), "c")
		for round := range rounds {
			publish(t, producer, round)
			if !settle(t, p, db, round+1) {
				return
			}
		}
		testenv.Must(t, errors.Join(stops[0](), stops[1]()))
		allRecorded(t, db, rounds)
	})
}

// While a retry of a key's first message has not committed, another owner's retry of it waits, and so does a message that is to follow
// it: only then is it known whether the first is done, and what the other waits behind.
func TestRetryOfTwoOwners(t *testing.T) {
	a1, a2, a3, refused := record("a", 1), record("a", 2), record("a", 3), errors.New("refused")
	onEach(t, func(t *testing.T, db *database) {
		for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
			p := newParked(t, db.ways()[0].open(t, level).(typed[*sql.Tx]).db, "c")
			for name, c := range map[string]struct {
				behind *inbox.Message // is parked behind a1
				ends   error          // of the first owner's retry
				follow *inbox.Message // by the other owner, or nil: it retries a1, too
				want   bool
				left   string
			}{
				"free":              {follow: a2},
				"still blocked":     {follow: a2, ends: refused, want: true, left: "a1 a2 "},
				"blocked by a2":     {behind: a2, follow: a3, want: true, left: "a2 a3 "},
				"blocked by both":   {behind: a2, follow: a3, ends: refused, want: true, left: "a1 a2 a3 "},
				"done by the first": {behind: a2, left: "a2 "},
				"done by the other": {behind: a2, ends: refused, want: true, left: "a2 "},
			} {
				p.park(a1, true)
				if c.behind != nil {
					p.follow(c.behind, true)
				}
				first := p.first()
				got := p.whileRetried(db, first, c.ends, func() (bool, error) {
					if c.follow != nil {
						return p.Follow(t.Context(), c.follow)
					}
					return p.Redo(t.Context(), first, p.work(first))
				})
				if left := p.redoAll(); got != c.want || left != c.left || db.count(t, "effects WHERE message = 'a1'") != 1 {
					cdctest.Violation(t, cdctest.Order, "%s, %s: %v, then %q; %d effects of a1", level, name, got, left, db.count(t, "effects WHERE message = 'a1'"))
				}
				db.exec(t, "DELETE FROM effects", "DELETE FROM inbox")
			}
		}
	})
}

// first returns the first parked message of the key "a", nil if there is none.
func (p parked[Tx]) first() *parking.Parked {
	p.t.Helper()
	row, err := p.First(p.t.Context(), "orders", 3, parking.KeyOf(record("a", 1)))
	testenv.Must(p.t, err)
	return row
}

func (p parked[Tx]) work(row *parking.Parked) func(context.Context, Tx, *writer.Unit) error {
	return func(ctx context.Context, tx Tx, _ *writer.Unit) error { return add(row.Message)(ctx, exec(p.db, tx)) }
}

// redoAll handles what is parked of the key "a" and returns the IDs.
func (p parked[Tx]) redoAll() (ids string) {
	p.t.Helper()
	for row := p.first(); row != nil; row = p.first() {
		p.redo(row, nil, true)
		ids += row.ID.ID + " "
	}
	return ids
}

// whileRetried calls another owner's operation while a retry is in its transaction, and ends that when the operation waits for it.
func (p parked[Tx]) whileRetried(db *database, row *parking.Parked, ends error, other func() (bool, error)) bool {
	p.t.Helper()
	begun, end, first, second := make(chan struct{}), make(chan struct{}), make(chan answer, 1), make(chan answer, 1)
	go func() {
		done, err := p.Redo(p.t.Context(), row, func(ctx context.Context, tx Tx, u *writer.Unit) error {
			close(begun)
			<-end
			return errors.Join(ends, p.work(row)(ctx, tx, u))
		})
		first <- answer{done, err}
	}()
	<-begun
	go func() {
		yes, err := other()
		second <- answer{yes, err}
	}()
	deadline := time.Now().Add(cdctest.Patience(time.Minute))
	for tick := time.NewTicker(5 * time.Millisecond); !db.waits(p.t); <-tick.C {
		if len(second) > 0 || time.Now().After(deadline) {
			p.t.Error("the other owner does not wait")
			break
		}
	}
	close(end)
	if a := <-first; a.repeat != (ends == nil) || !errors.Is(a.err, ends) {
		p.t.Errorf("the first owner's retry: %v, %v", a.repeat, a.err)
	}
	a := <-second
	testenv.Must(p.t, a.err)
	return a.repeat
}

// waits reports whether a transaction waits for a lock. MySQL's innodb_trx would not do: it shows its last answer until nobody has asked
// for 0.1 s.
func (db *database) waits(t *testing.T) bool {
	t.Helper()
	if db.pg != nil {
		return db.count(t, "pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0
	}
	var name string
	var n int
	testenv.Must(t, db.conn.QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'").Scan(&name, &n))
	return n > 0
}

// A consumer that Kafka has removed from the group ends its handlers at once: another one may have its partitions.
func TestLostPartition(t *testing.T) {
	c := newConsumption(t, newDatabase(t, servers[0]), 1)
	c.send(0, "a 1")
	var calls atomic.Int64
	over := make(chan struct{})
	stop, _ := c.start(func(ctx context.Context, tx *sql.Tx, _ *writer.Unit, m *inbox.Message) error {
		if calls.Add(1) == 1 {
			select {
			case <-ctx.Done():
			case <-over:
			}
			return errors.New("cut off")
		}
		return effect(ctx, tx, nil, m)
	}, func(k *kgoinbox.Config) {
		k.Client, k.Drain = append(k.Client, kgo.HeartbeatInterval(50*time.Millisecond)), time.Hour
		k.CommitInterval = time.Hour // franz-go joins again without losing partitions if a commit is the first to be refused
	})
	t.Cleanup(func() { close(over) })
	c.await("the message is handled", func() bool { return calls.Load() == 1 })
	groups, err := kadm.NewClient(c.admin).DescribeGroups(t.Context(), c.topic)
	testenv.Must(t, err)
	remove := kmsg.NewPtrLeaveGroupRequest()
	remove.Group = c.topic
	for _, m := range groups[c.topic].Members {
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID = m.MemberID
		remove.Members = append(remove.Members, member)
	}
	answer, err := remove.RequestWith(t.Context(), c.admin)
	testenv.Must(t, err)
	if len(answer.Members) != 1 || answer.Members[0].ErrorCode != 0 {
		t.Fatalf("remove the member: %+v", answer)
	}
	c.await("the message is handled when the partition is back", func() bool { return c.count(t, "effects") > 0 })
	testenv.Must(t, stop())
	if n, parked := c.count(t, "effects"), c.count(t, "inbox_parked"); n != 1 || parked != 0 || calls.Load() != 2 || c.committed(0) != 1 {
		t.Errorf("%d effects, %d parked, %d calls, offset %d", n, parked, calls.Load(), c.committed(0))
	}
}

package faults

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// lost starts the relay, publishes some events, and loses the slot or purges the binlog after more were written, which only the
// table has.
func lost(t *testing.T, r *cdctest.Rig) {
	t.Helper()
	r.Start()
	r.AwaitSaved(r.Append("before", 10))
	r.Must(r.TermRelay().Do(r.Within(time.Minute), r.Random))
	r.Kill()
	r.Must(r.DB.InsertMany(r.Within(time.Minute), "many-", 20_000, 200))
	r.Must(r.DB.LoseLog(t.Context()))
}

// Repair is killed, or gets SIGTERM, again and again, at each moment up to its end, and then runs to its end. After SIGTERM it says what
// to run.
//
//covers:all 1 12 19 events both
func TestRepairKilled(t *testing.T) {
	onEachAlone(t, func(t *testing.T, s source) {
		eachDelivery(t, func(t *testing.T, d cdctest.Delivery) {
			r := newRig(t, s.open(t), cdctest.InRedis, func(o *cdctest.RigOptions) { o.Delivery = d })
			lost(t, r)
			kills, interrupted, args := 0, 0, []string{"repair"}
			for after := 50 * time.Millisecond; ; after += after/4 + 20*time.Millisecond {
				r.Repeated("repair")
				r.Must(r.Relay.StartCommand(t.Context(), args...))
				select {
				case <-r.Relay.Done():
				case <-time.After(after):
					if kills%2 == 0 {
						r.Relay.Kill()
					} else {
						_ = r.Relay.Signal(syscall.SIGTERM)
					}
				}
				exit, err := r.Relay.Wait(r.Within(time.Minute))
				r.Must(err)
				if exit.Code == 0 {
					break
				}
				if strings.Contains(exit.Log, "the position was not moved") {
					interrupted++
					args, err = cdctest.PrintedCommand(t.Context(), lastWords(exit.Log), "repair")
					r.Must(err)
				} else if exit.Code > 0 {
					t.Fatalf("exit code %d: %s", exit.Code, exit.Log)
				}
				kills++
			}
			t.Logf("killed %d times; at last it said:\n%s", kills, r.Relay.Log())
			if kills < 3 || interrupted == 0 {
				t.Errorf("killed or interrupted %d times only, interrupted %d times", kills, interrupted)
			}
			r.Start()
			r.AwaitEvents(r.Append("after", 10))
			r.Verify()
		})
	})
}

// The publication was altered, and the repair that accepts it is killed before it is done: a relay still refuses to start. It gets SIGTERM:
// what it says publishes what is missing.
//
//covers:postgres 12 14 events both
func TestRepairOfAlteredPublicationInterrupted(t *testing.T) {
	proxy := shared.kafka.Brokers()[0].Proxy()
	t.Cleanup(func() { proxy.Heal(t.Context()) })
	eachDelivery(t, func(t *testing.T, d cdctest.Delivery) {
		db := newPostgres(t)
		r := newRig(t, db, cdctest.InRedis, func(o *cdctest.RigOptions) {
			proxied(o)
			o.Delivery, o.Window = d, 500
		})
		r.Start()
		r.AwaitSaved(r.Append("before", 10))
		sigterm(r)
		r.Must(db.Exec(t.Context(), "ALTER PUBLICATION "+db.Name()+" DROP TABLE outbox"))
		r.Must(db.InsertMany(r.Within(time.Minute), "many-", 5000, 200))
		r.Must(db.Exec(t.Context(), "ALTER PUBLICATION "+db.Name()+" ADD TABLE outbox"))
		said := refuses(t, r, 5)
		interrupt := func(signal syscall.Signal) {
			proxy.Delay(testenv.Requests, 200*time.Millisecond) // so that it does not end before
			r.Repeated("repair")
			r.Must(r.Relay.StartCommand(t.Context(), "repair"))
			r.Must(r.Relay.AwaitLog(r.Within(time.Minute), "msg=reading"))
			r.Must(r.Relay.Signal(signal))
			_, err := r.Relay.Wait(r.Within(time.Minute))
			r.Must(err)
			proxy.Heal(t.Context())
		}
		interrupt(syscall.SIGKILL)
		if again := refuses(t, r, 5); again != said {
			t.Errorf("first it said %q, then %q", said, again)
		}
		interrupt(syscall.SIGTERM)
		follow(t, r, lastWords(r.Relay.Log()), "repair")
		r.Start()
		r.AwaitEvents(r.Append("after", 10))
		r.Verify()
	})
}

// While repair publishes, no relay leads, and no other repair starts, but the table may be altered and written. Afterwards one goes on.
// Kafka is slow meanwhile, not away: a repair that loses a transaction starts again, and another one may begin before it.
//
//covers:all 7 12 19 events exactly-once
func TestRepairKeepsRelaysOut(t *testing.T) {
	proxy := shared.kafka.Brokers()[0].Proxy()
	t.Cleanup(func() { proxy.Heal(t.Context()) })
	both := map[string]*repaired{}
	for name, source := range sources() {
		r := newRig(ofSource{t, name}, source.open(ofSource{t, name}), cdctest.InRedis, func(o *cdctest.RigOptions) {
			exactlyOnce(o)
			o.Listener = testenv.ListenerProxied
			o.Settings = map[string]any{"kafka.request_timeout": "55s", "in_flight.events": 500} // it is held in the middle of the table
		})
		lost(t, r)
		r.Repeated("repair")
		r.Config.Set("kafka.brokers", shared.kafka.Bootstrap()) // of the second one
		both[name] = &repaired{r, r.Second()}
	}
	proxy.Delay(testenv.Requests, 300*time.Millisecond) // so that none ends before the last one reads
	for _, p := range both {
		p.Must(p.Relay.StartCommand(t.Context(), "repair"))
	}
	for _, p := range both {
		p.Must(p.Relay.AwaitLog(p.Within(time.Minute), "msg=reading"))
	}
	proxy.Delay(testenv.Requests, time.Hour)
	t.Run("meanwhile", func(t *testing.T) {
		for name, p := range both {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p.keepsOut(t)
			})
		}
	})
	proxy.Heal(t.Context())
	for _, p := range both {
		p.AwaitExit(time.Minute, 0)
		if !p.second.Running() {
			p.Must(p.second.Start(t.Context()))
		}
		p.Must(p.second.AwaitReady(p.Within(time.Minute)))
		p.AwaitEvents(p.Append("after", 10))
		p.Verify()
	}
}

// repaired is a relay whose repair runs, and another one.
type repaired struct {
	*cdctest.Rig

	second *cdctest.Relay
}

func (p *repaired) keepsOut(t *testing.T) {
	t.Helper()
	p.Must(p.DB.Exec(p.Within(time.Minute), "ALTER TABLE outbox ADD COLUMN note VARCHAR(10)"))
	p.Append("meanwhile", 10)
	if n := strings.Count(p.Relay.Log(), "msg=reading"); n != 1 {
		t.Errorf("the table was altered only after repair had let go of it, and had begun %d times", n)
	}
	_, err := p.second.Command(p.Within(time.Minute), "repair")
	if p.Relay.Running() && (err == nil || !strings.Contains(err.Error(), "or another repair, runs")) {
		t.Errorf("another repair: %v", err)
	}
	p.Must(p.second.Start(t.Context()))
	if _, ok := p.DB.(*cdctest.MySQL); ok {
		p.Must(p.second.AwaitLog(p.Within(time.Minute), "standing by"))
		return
	}
	exit, err := p.second.Wait(p.Within(time.Minute))
	p.Must(err)
	if p.Relay.Running() && exit.Code != 5 {
		t.Errorf("another relay: exit code %d: %s", exit.Code, exit.Log)
	}
}

// A transaction that was open when later ones were published is in the gap, with its subtransactions, however old its rows are.
//
//covers:postgres 12 17 events both
func TestRepairOfLongTransaction(t *testing.T) {
	t.Parallel()
	eachDelivery(t, func(t *testing.T, d cdctest.Delivery) {
		r := newRig(t, ownPostgres(t), cdctest.InRedis, func(o *cdctest.RigOptions) { o.Delivery = d })
		r.Start()
		r.AwaitSaved(r.Append("before", 10))
		long, err := r.DB.Connect(r.Within(2 * time.Minute))
		r.Must(err)
		defer long.Close()
		r.Must(long.Begin(t.Context()))
		for _, key := range []string{"long", "longer"} {
			first, err := long.Reserve(t.Context(), key, 1)
			r.Must(err)
			r.Must(long.Insert(t.Context(), []*cdctest.Event{cdctest.NewEvent(key, first, 100)}))
			r.Must(long.Savepoint(t.Context()))
		}
		awaitXMin(r)
		r.AwaitSaved(r.Append("later", 10))
		r.Must(r.TermRelay().Do(r.Within(time.Minute), r.Random))
		r.Kill()
		r.Must(r.DB.LoseLog(t.Context()))
		r.Must(long.Commit(t.Context()))
		r.Repeated("repair")
		out, err := r.Relay.Command(r.Within(time.Minute), "repair", "--overlap", "0s")
		r.Must(err)
		if !strings.Contains(out, "rows of transaction") {
			t.Errorf("the gap is not by transaction: %s", out)
		}
		r.Start()
		r.Verify()
	})
}

// Transactions commit while PostgreSQL waits for others before it makes the slot. They are in the snapshot, although it counts only
// earlier ones: its xmax may be below its xmin. Meanwhile repair holds no lock for which a DDL statement would wait, and writers
// behind it: the slot may wait for one of them.
//
//covers:postgres 12 17 events
func TestRepairWhileTransactionsEnd(t *testing.T) {
	t.Parallel()
	db := ownPostgres(t)
	r := newRig(t, db, cdctest.InRedis, nil)
	r.Start()
	awaitXMin(r)
	r.Must(r.TermRelay().Do(r.Within(time.Minute), r.Random))
	r.Kill()
	r.Must(r.DB.LoseLog(t.Context()))
	r.Repeated("repair")
	first := openTransaction(t, db)
	r.Must(r.Relay.StartCommand(t.Context(), "repair"))
	first.awaitWaiter(r, db)
	r.Must(db.Exec(r.Within(time.Minute), "ALTER TABLE outbox ADD COLUMN note text")) // writers wait behind it
	r.Append("meanwhile", 10)
	second := openTransaction(t, db)
	first.end(r)
	second.awaitWaiter(r, db)
	third := openTransaction(t, db)
	second.end(r)
	r.AwaitExit(time.Minute, 0)
	third.end(r)
	r.Start()
	r.Verify()
}

// A transaction that wrote while the table was out of the publication is still open when repair starts: it is waited for, because it is
// not sent when it is committed.
//
//covers:postgres 12 14 17 events
func TestRepairOfAlteredPublicationAwaitsTransactions(t *testing.T) {
	t.Parallel()
	db := ownPostgres(t)
	r := newRig(t, db, cdctest.InRedis, nil)
	r.Start()
	r.AwaitSaved(r.Append("before", 10))
	sigterm(r)
	r.Must(db.Exec(t.Context(), "ALTER PUBLICATION "+db.Name()+" DROP TABLE outbox"))
	long, err := db.Connect(r.Within(2 * time.Minute))
	r.Must(err)
	defer long.Close()
	r.Must(long.Begin(t.Context()))
	first, err := long.Reserve(t.Context(), "long", 1)
	r.Must(err)
	r.Must(long.Insert(t.Context(), []*cdctest.Event{cdctest.NewEvent("long", first, 100)}))
	r.Must(db.Exec(t.Context(), "ALTER PUBLICATION "+db.Name()+" ADD TABLE outbox"))
	r.Repeated("repair")
	r.Must(r.Relay.StartCommand(t.Context(), "repair"))
	r.Must(r.Relay.AwaitLog(r.Within(time.Minute), "waiting for the transactions"))
	r.Must(long.Commit(t.Context()))
	r.AwaitExit(time.Minute, 0)
	r.Start()
	r.Verify()
}

// A repair is killed while PostgreSQL makes its slot, which that session holds until the slot is made. The next one waits for that.
//
//covers:postgres 1 12 17 events
func TestRepairAfterAKilledOne(t *testing.T) {
	t.Parallel()
	db := ownPostgres(t)
	r := newRig(t, db, cdctest.InRedis, nil)
	lost(t, r)
	r.Repeated("repair")
	open := openTransaction(t, db)
	r.Must(r.Relay.StartCommand(t.Context(), "repair"))
	open.awaitWaiter(r, db)
	r.Kill()
	r.Must(r.Relay.StartCommand(t.Context(), "repair"))
	r.Must(r.Relay.AwaitLog(r.Within(time.Minute), "a new slot waits for the transactions"))
	open.end(r)
	r.AwaitExit(time.Minute, 0)
	r.Start()
	r.Verify()
}

// awaitXMin waits until the checkpoint has the horizon of transactions, which the relay reads once a second.
func awaitXMin(r *cdctest.Rig) {
	for text := ""; !strings.Contains(text, `"xmin":`); {
		r.AwaitSaved(r.Append("before", 1))
		var err error
		text, err = r.Redis.Do(r.Within(time.Minute), "GET", r.RedisKey())
		r.Must(err)
	}
}

// transaction is one that has an ID and writes nothing.
type transaction struct {
	conn *pgx.Conn
	id   string
}

func openTransaction(t *testing.T, db *cdctest.Postgres) (x transaction) {
	t.Helper()
	var err error
	if x.conn, err = pgx.Connect(t.Context(), db.Server.DSN(db.Name(), "")); err != nil {
		t.Fatal(err)
	}
	if _, err = x.conn.Exec(t.Context(), "BEGIN"); err == nil {
		err = x.conn.QueryRow(t.Context(), "SELECT pg_current_xact_id()::text").Scan(&x.id)
	}
	testenv.Must(t, err)
	return x
}

func (x transaction) awaitWaiter(r *cdctest.Rig, db *cdctest.Postgres) {
	r.Await("somebody to wait for the transaction", func(ctx context.Context) (waits bool, err error) {
		err = db.Query(ctx, []any{&waits}, "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted AND transactionid::text = $1", x.id)
		return waits, err
	})
}

func (x transaction) end(r *cdctest.Rig) { r.Must(x.conn.Close(r.Within(time.Minute))) }

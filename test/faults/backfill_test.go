package faults

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// pending is the condition of the rows that a poller has left.
const pending = "status IN ('NEW', 'FAILED')"

// polled is a rig whose table a poller has left: it has published some rows, which the relay must not publish, failed on others, and
// did not come to the rest. Nothing has taken a slot or stored a position. Writers go on.
func polled(t *testing.T, r *cdctest.Rig) {
	t.Helper()
	if _, ok := r.DB.(*cdctest.Postgres); ok {
		r.Must(r.DB.LoseLog(t.Context()))
	} else {
		_, err := r.Relay.Command(t.Context(), "position", "reset")
		r.Must(err)
	}
	r.Must(r.DB.Exec(t.Context(), "ALTER TABLE outbox ADD COLUMN status varchar(20) NOT NULL DEFAULT 'NEW'"))
	keys := []string{"one", "two", "three"}
	for _, key := range keys {
		r.Exclude(r.Append(key, 100)...)
	}
	r.Must(r.DB.Exec(t.Context(), "UPDATE outbox SET status = 'PUBLISHED'"))
	r.Append("failed", 100)
	r.Must(r.DB.Exec(t.Context(), "UPDATE outbox SET status = 'FAILED' WHERE status = 'NEW'"))
	for _, key := range keys {
		r.Append(key, 100)
	}
	for range 2 { // each writer has keys of its own: the table tells the order of their commits
		r.Load(cdctest.Workload{Writers: 1, Keys: 16, Pause: 10 * time.Millisecond})
	}
}

// The position was taken before the backfill, when the poller still ran: what it says publishes each event once all the same.
//
//covers:all 12 19 events both
func TestBackfillBehindATakenPosition(t *testing.T) {
	onEach(t, func(t *testing.T, s source) {
		for _, r := range besides(t, s.open, cdctest.InRedis, nil) {
			polled(t, r)
			_, err := r.Relay.Command(r.Within(time.Minute), "setup", "--skip-existing")
			r.Must(err)
			r.Append("meanwhile", 10)
			r.Repeated("backfill")
			command := []string{"setup", "--backfill", "--where", pending}
			out, err := r.Relay.Command(r.Within(time.Minute), command...)
			if err == nil {
				t.Fatalf("it was not refused: %s", out)
			}
			follow(t, r, out, "teardown")
			_, err = r.Relay.Command(r.Within(2*time.Minute), command...)
			r.Must(err)
			r.Start()
			r.AwaitProgress(100)
			once(t, r)
		}
	})
}

// killed is a step of a backfill at which it is killed: it has sent a request, which arrives afterwards, or not.
type killed struct {
	name    string
	at      func(p *places) *testenv.ProxyServer
	matches func(r *cdctest.Rig) func(request []byte) bool
	arrives bool
}

// places are the proxies between a relay and its servers.
type places struct{ db, kafka, redis *testenv.ProxyServer }

func (p *places) all() []*testenv.ProxyServer { return []*testenv.ProxyServer{p.db, p.kafka, p.redis} }

func ofDB(p *places) *testenv.ProxyServer    { return p.db }
func ofKafka(p *places) *testenv.ProxyServer { return p.kafka }
func ofRedis(p *places) *testenv.ProxyServer { return p.redis }

// contains recognizes a request that has a text.
func contains(text string) func(*cdctest.Rig) func([]byte) bool {
	return func(*cdctest.Rig) func([]byte) bool {
		return func(request []byte) bool { return bytes.Contains(request, []byte(text)) }
	}
}

func publishes(r *cdctest.Rig) func([]byte) bool { return publishesTo(r.Topic) }

// ends recognizes the request to commit the transaction that has events.
func ends(r *cdctest.Rig) func([]byte) bool {
	var published atomic.Bool
	publishes, commits := publishesTo(r.Topic), isRequest(kmsg.EndTxn)
	return func(request []byte) bool {
		if publishes(request) {
			published.Store(true)
		}
		return published.Load() && commits(request) && bytes.Contains(request, []byte(r.Topic))
	}
}

// saves recognizes the save of the new position.
func saves(*cdctest.Rig) func([]byte) bool {
	return func(request []byte) bool {
		_, saved, _ := bytes.Cut(request, []byte(`{"version":`))
		saved, _, _ = bytes.Cut(saved, []byte("}\r\n")) // behind it comes what it replaces
		return bytes.Contains(saved, []byte(`"backfill":`)) && !bytes.Contains(saved, []byte(`"position":"",`))
	}
}

// steps are those of a backfill, in order. A run ends early at each of them, and the last one has nothing left to do.
func steps(postgres bool, d cdctest.Delivery) []killed {
	list := []killed{
		{"snapshot", ofDB, contains("START TRANSACTION WITH CONSISTENT SNAPSHOT"), false},
		{"snapshot taken", ofDB, contains("UNLOCK TABLES"), false},
	}
	if postgres {
		list = []killed{{"slot", ofDB, contains("CREATE_REPLICATION_SLOT"), false}, {"slot made", ofDB, contains("CREATE_REPLICATION_SLOT"), true}}
	}
	list = append(list, killed{"keys", ofDB, contains("row_id"), false}, killed{"rows", ofDB, contains("SELECT * FROM ("), false}, killed{"publish", ofKafka, publishes, false})
	if d == cdctest.ExactlyOnce {
		list = append(list, killed{"commit", ofKafka, ends, false}, killed{"committed", ofKafka, ends, true})
	} else {
		list = append(list, killed{"save", ofRedis, saves, false}, killed{"saved", ofRedis, saves, true})
	}
	if postgres {
		list = append(list, killed{"name", ofDB, contains("pg_copy_logical_replication_slot"), false}, killed{"named", ofDB, contains("pg_copy_logical_replication_slot"), true})
	}
	return list
}

// A backfill is killed at each of its steps, and run again each time, while writers go on. Nothing is lost and nothing is published that
// the poller had published. With exactly-once delivery each event is published once; with at-least-once delivery what was published
// before a kill is published again.
//
//covers:postgres 1 12 events both
//covers:mysql 1 19 events
//covers:mariadb 1 19 events exactly-once
func TestBackfillKilledAtEachStep(t *testing.T) {
	kafka := shared.kafka.Brokers()[0].Proxy()
	for name, source := range sources() {
		for _, d := range deliveries() {
			if name == testenv.MySQLFlavor && d == cdctest.ExactlyOnce || name == testenv.MariaDBFlavor && d == cdctest.AtLeastOnce {
				continue // the steps differ by the kind of source and by the delivery
			}
			t.Run(name+"/"+string(d), func(t *testing.T) {
				db := source.open(t)
				p := &places{db: db.ThroughProxy(t), kafka: kafka, redis: testenv.Proxy(t, shared.redis.Addr())}
				r := newRig(t, db, cdctest.InRedis, func(o *cdctest.RigOptions) {
					o.Delivery, o.Listener = d, testenv.ListenerProxied
					o.Settings = map[string]any{"checkpoint.redis.addrs": []string{p.redis.Addr()}, "kafka.transactional_id": "of-" + db.Name()}
				})
				polled(t, r)
				r.Must(db.InsertMany(r.Within(time.Minute), "many-", 20_000, 200)) // more than one transaction of run has
				r.Repeated("backfill")
				for _, s := range steps(name == "postgres", d) {
					s.kill(t, r, p)
					if s.name == "publish" { // no run may begin now
						r.Must(r.Relay.Start(t.Context()))
						if exit, err := r.Relay.Wait(r.Within(time.Minute)); err != nil || exit.Code != 5 {
							t.Fatalf("run: exit code %d, %v", exit.Code, err)
						}
					}
				}
				out, err := r.Relay.Command(r.Within(2*time.Minute), "setup", "--backfill", "--where", pending)
				r.Must(err)
				if !strings.Contains(out, "the rows were published before") {
					t.Errorf("it was not done: %s", out)
				}
				r.Start()
				r.AwaitProgress(100)
				if d == cdctest.ExactlyOnce {
					once(t, r)
				} else {
					r.Verify()
				}
			})
		}
	}
}

// kill runs the backfill up to the step.
func (s *killed) kill(t *testing.T, r *cdctest.Rig, p *places) {
	t.Helper()
	held := s.at(p).HoldBack(t, s.matches(r))
	r.Must(r.Relay.StartCommand(t.Context(), "setup", "--backfill", "--where", pending))
	select {
	case <-held.Caught():
	case <-r.Relay.Done():
		t.Fatalf("%s: it has ended before: %s", s.name, r.Relay.LogTail(20))
	case <-r.Within(time.Minute).Done():
		t.Fatalf("%s: it does not come to that: %s", s.name, r.Relay.LogTail(20))
	}
	r.Relay.Kill()
	if s.arrives {
		r.Must(held.Release(r.Within(time.Minute)))
	}
	for _, proxy := range p.all() {
		proxy.Cut()
		r.Must(proxy.Restore())
	}
}

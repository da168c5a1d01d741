package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// Each server is killed and frozen: /status, /readyz and the page's data name it, what is wrong and since when, and no longer do once it
// is back.
//
//covers:all 10 21 26 events
func TestProblemsArePresentOnes(t *testing.T) {
	t.Parallel()
	kafka, redis := testenv.Kafka(t, testenv.KafkaOptions{Settings: map[string]string{"broker.session.timeout.ms": "3000"}}), testenv.Redis(t, testenv.RedisOptions{})
	broker := kafka.Brokers()[0]
	at := broker.Addr(testenv.ListenerPlain)
	var rigs []*cdctest.Rig
	for name := range sources() {
		open := onOwn(t, name)
		for _, d := range deliveries() {
			if d == cdctest.ExactlyOnce && name != "postgres" { // what it adds is the same on each database
				continue
			}
			tb := ofSource{t, name + "-" + string(d)}
			rigs = append(rigs, newRig(tb, open(tb), cdctest.InRedis, func(o *cdctest.RigOptions) { o.Kafka, o.Redis, o.Delivery = kafka, redis, d }))
		}
	}
	for _, r := range rigs {
		r.Start()
		before := r.Append("before", 10)
		r.AwaitSaved(before)
		r.AwaitEvents(before) // a broker that is killed between a commit and its markers may never write them, and hang every consumer of committed records
	}
	ctx := rigs[0].Within(10 * time.Minute)
	databases := func(do func(db cdctest.Database) error) error {
		var errs []error
		done := map[any]bool{} // two rigs share PostgreSQL
		for _, r := range rigs {
			if server := serverOf(r.DB); !done[server] {
				done[server] = true
				errs = append(errs, do(r.DB))
			}
		}
		return errors.Join(errs...)
	}
	for _, fault := range []struct {
		name, with string
		away, back func() error
		says       []string // any of them
		first      bool     // it is noticed before anything waits
		waits      bool     // events wait for it
		ready      bool
	}{
		{
			"Kafka killed", "kafka", func() error { broker.Kill(); return nil }, func() error { return errors.Join(broker.Launch(ctx), kafka.AwaitHealthy(ctx)) },
			[]string{at + ": connect: connection refused"},
			true, true, false,
		},
		{"Kafka frozen", "kafka", broker.Pause, broker.Resume, []string{at + " does not answer", at + ": context deadline exceeded", at + ": i/o timeout", at + ": it accepts connections and does not answer"}, false, true, false},
		{"Redis killed", "checkpoint", func() error { redis.Kill(); return nil }, func() error { return redis.Start(ctx) }, []string{"connection refused"}, false, true, true},
		{"Redis frozen", "checkpoint", redis.Pause, redis.Resume, []string{"no answer in time"}, false, true, true},
		{"database killed", "database", func() error {
			return databases(func(db cdctest.Database) error { return db.Stop(ctx, cdctest.Crash) })
		}, func() error { return databases(func(db cdctest.Database) error { return db.Start(ctx) }) }, []string{"connection refused"}, true, false, false},
		{"database frozen", "database", func() error {
			return databases(func(db cdctest.Database) error { return serverOf(db).Pause() })
		}, func() error {
			return databases(func(db cdctest.Database) error { return serverOf(db).Resume() })
		}, []string{"timeout", "no answer in time", "deadline exceeded", "has sent nothing", "does not answer"}, true, false, false},
	} {
		began := time.Now()
		shows := func(when string) {
			for _, r := range rigs {
				awaitProblem(r, fault.with, fault.says)
				t.Logf("%s, %s: shown by %s after %s", fault.name, when, r.Topic, time.Since(began).Round(10*time.Millisecond))
			}
		}
		rigs[0].Must(fault.away())
		if fault.first {
			shows("nothing waits")
		}
		waiting := make([][]*cdctest.Event, len(rigs))
		if fault.waits {
			for i, r := range rigs {
				waiting[i] = r.Append("meanwhile", 10)
			}
			shows("events wait")
		}
		for _, r := range rigs {
			awaitReadiness(r, fault.says, fault.ready)
			if fault.with == "kafka" {
				r.Await("the rate to fall to 0", func(ctx context.Context) (bool, error) {
					text, err := r.Relay.Get(ctx, "/api/page")
					return strings.Contains(text, `"per_second":0,`), err
				})
			}
		}
		rigs[0].Must(fault.back())
		for i, r := range rigs {
			awaitNoProblem(r)
			if fault.waits {
				r.AwaitSaved(waiting[i])
			}
		}
		t.Logf("%s: over after %s", fault.name, time.Since(began).Round(10*time.Millisecond))
	}
	for _, r := range rigs {
		once(t, r)
	}
}

// A row that PostgreSQL cannot send, because its text is not valid, holds up what is behind it: that is a problem although each start is
// accepted, and the fix, followed as it is printed, goes past the row and publishes everything else. A row that is still there when the
// table is read is named.
//
//covers:postgres 26 events both
func TestRowThatPostgreSQLCannotSend(t *testing.T) {
	t.Parallel()
	for checkpoint, delivery := range map[cdctest.Checkpoint]cdctest.Delivery{cdctest.SlotOnly: cdctest.AtLeastOnce, cdctest.InRedis: cdctest.ExactlyOnce} {
		t.Run(string(checkpoint), func(t *testing.T) {
			t.Parallel()
			db := newPostgres(t, "TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C' ENCODING 'SQL_ASCII'")
			r := newRig(t, db, checkpoint, func(o *cdctest.RigOptions) { o.Delivery = delivery })
			r.Must(db.Exec(t.Context(), `CREATE FUNCTION garble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				IF position('garbled:2:'::bytea IN NEW.payload) = 1 THEN NEW.event_type = E'caf\xe9'; END IF; RETURN NEW; END $$`))
			r.Must(db.Exec(t.Context(), "CREATE TRIGGER garble BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION garble()"))
			r.Start()
			r.AwaitEvents(r.Append("before", 10))
			garbled := r.Append("garbled", 3)[1].ID.String()
			r.Append("behind", 10)
			said := ""
			r.Await("/readyz to name the transaction", func(ctx context.Context) (bool, error) {
				_, err := r.Relay.Get(ctx, "/readyz")
				said = fmt.Sprint(err)
				return strings.Contains(said, "no progress after the position") && strings.Contains(said, "cdc-relay position set"), nil
			})
			t.Log(said)
			if lsn := regexp.MustCompile(`, ([0-9A-F]+)/([0-9A-F]+): .*0 events in flight, .*position set ([0-9A-F]+/[0-9A-F]+) `).FindStringSubmatch(said); lsn == nil {
				t.Fatal("it does not name the commit and the position")
			} else if low, err := strconv.ParseUint(lsn[2], 16, 32); err != nil || lsn[3] != fmt.Sprintf("%s/%X", lsn[1], low+1) {
				t.Fatalf("position set %s is not one byte behind the beginning of the commit, %s/%s", lsn[3], lsn[1], lsn[2])
			}
			sigterm(r)
			follow(t, r, said, "position set")
			if out, err := try(t, r, said, "repair"); err == nil || !strings.Contains(out, garbled) {
				t.Errorf("%v: %s", err, out)
			}
			r.Must(db.Exec(t.Context(), "UPDATE outbox SET event_type = 'cafe' WHERE event_id = $1", garbled))
			follow(t, r, said, "repair")
			r.Start()
			r.Append("later", 10)
			r.Verify()
		})
	}
}

// shown is a part of /status.
type shown struct {
	State    string
	Problems []struct {
		With, Server, Text string
		Since              time.Time
	}
	LastError *struct {
		Text string
		Past bool
	} `json:"last_error"`
}

func show(ctx context.Context, r *cdctest.Rig) (shown, error) {
	var st shown
	text, err := r.Relay.Get(ctx, "/status")
	if err == nil {
		err = json.Unmarshal([]byte(text), &st)
	}
	return st, err
}

// awaitProblem waits until the page has only problems with that dependency, one of which says one of the texts.
func awaitProblem(r *cdctest.Rig, with string, says []string) {
	var last shown
	err := cdctest.Await(r.Within(2*time.Minute), "the present problem", func(ctx context.Context) (bool, error) {
		st, err := show(ctx, r)
		last = st
		found := false
		for _, p := range st.Problems {
			if p.With != with {
				return false, err
			}
			found = found || anyIn(p.Text, says)
		}
		return found, err
	})
	if err != nil {
		r.Must(fmt.Errorf("%w; shown is %+v", err, last))
	}
}

func anyIn(text string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// awaitReadiness waits until /readyz says one of the texts.
func awaitReadiness(r *cdctest.Rig, says []string, ready bool) {
	last := ""
	err := cdctest.Await(r.Within(2*time.Minute), "/readyz to say why", func(ctx context.Context) (bool, error) {
		text, err := r.Relay.Get(ctx, "/readyz")
		if err != nil {
			text = err.Error()
		}
		last = text
		return anyIn(text, says) && (err == nil) == ready, nil
	})
	if err != nil {
		r.Must(fmt.Errorf("%w; it says %s", err, last))
	}
}

// awaitNoProblem waits until the relay leads without a problem, and the last error is a past one.
func awaitNoProblem(r *cdctest.Rig) {
	last := ""
	err := cdctest.Await(r.Within(2*time.Minute), "the problem to end", func(ctx context.Context) (bool, error) {
		st, err := show(ctx, r)
		if err != nil {
			return false, err
		}
		text, err := r.Relay.Get(ctx, "/readyz")
		last = fmt.Sprintf("%+v; /readyz: %s %v", st, text, err)
		return text == "ok\n" && st.State == "leading" && len(st.Problems) == 0 && (st.LastError == nil || st.LastError.Past), nil
	})
	if err != nil {
		r.Must(fmt.Errorf("%w; shown is %s", err, last))
	}
}

// frozen is a server that can be frozen.
type frozen interface {
	Pause() error
	Resume() error
}

func serverOf(db cdctest.Database) frozen {
	if p, ok := db.(*cdctest.Postgres); ok {
		return p.Server
	}
	return db.(*cdctest.MySQL).Server
}

package admin

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

var update = flag.Bool("update", false, "write the golden files")

// The states in which somebody looks at the page, as /api/page has them. The browser's tests in test/commands show them, so that what they look
// at is what the relay says.
func TestStatesOfPage(t *testing.T) {
	t.Parallel()
	got, err := json.MarshalIndent(statesOfPage(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "states.json")
	if *update {
		if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != string(got)+"\n" {
		t.Errorf("%s is not what the relay says (%v): go test ./internal/admin -run TestStatesOfPage -update", path, err)
	}
}

// at is a time of the day on which all is seen at 15:36:18.
func at(clock string) time.Time {
	moment, err := time.Parse(time.DateTime, "2026-01-02 "+clock)
	if err != nil {
		panic(err)
	}
	return moment
}

// seen is a situation, and what the page has beside it.
type seen struct {
	situation

	instance  string
	standbys  []standby
	perSecond float64
	incidents incidents
}

func statesOfPage() map[string]*page {
	began := at("15:34:06")
	kafka := Problem{With: "kafka", Server: "k1:9092", Since: began, Cause: "Kafka at k1:9092: connection refused", Fix: "check host and port and that the broker runs"}
	database := Problem{With: "database", Since: began, Cause: "PostgreSQL at db-1:5432: connection refused", Fix: "start it, or correct host and port in source.postgres.dsn"}
	redis := Problem{With: "checkpoint", Since: began, Cause: "position not saved: redis redis-1:6379 cannot be reached (connection refused)", Fix: "start it or correct checkpoint.redis.addrs"}
	retains := func(s *seen, bytes int64) { *s.Slot.SafeBytes, s.Slot.RetainedBytes = 1<<30-bytes, bytes }
	outage := func(s *seen) {
		s.perSecond, s.moved, s.Lag.Seconds = 0, began.Add(-time.Second), 132.4
		s.InFlight = InFlight{Events: 10_000, Bytes: 3_200_000, Since: began}
		retains(s, 38_541_888)
		s.Positions.Received = "0/7D495F8"
	}
	away := func(s *seen) { outage(s); s.Problems = []Problem{kafka} }
	follows := func(s *seen) {
		s.State, s.Since, s.instance, s.leader = "standby", at("12:11:42"), "relay-2:9464", nil
		s.Connected, s.Slot, s.DeadLetters, s.Positions, s.Checkpoint, s.InFlight, s.Lag = false, nil, nil, Positions{}, Checkpoint{}, InFlight{}, Lag{}
		s.Leader, s.standbys, s.perSecond, s.incidents = "slot cdc_relay is active for PID 4711 from 10.0.0.7", nil, 0, incidents{}
	}
	yes, no := true, false
	all := map[string]*page{}
	for name, change := range map[string]func(*seen){
		"idle": func(s *seen) { s.perSecond, s.InFlight, s.Lag, s.moved = 0, InFlight{}, Lag{}, at("15:20:00") },
		"load": func(*seen) {},
		"standby": func(s *seen) {
			follows(s)
			s.leader = &Leader{Name: "relay-1:9464", URL: "http://relay-1:9464/", Publishing: &yes, AskedAt: at("15:36:16")}
		},
		"standby-of-broken": func(s *seen) {
			broken := usually()
			away(broken)
			follows(s)
			s.leader = &Leader{Name: "relay-1:9464", URL: "http://relay-1:9464/", Publishing: &no, AskedAt: at("15:36:16"), of: *broken.page().Verdict}
		},
		"standby-without-database": func(s *seen) {
			follows(s)
			s.Problems, s.Source.SystemID = []Problem{database}, ""
		},
		"kafka-away": away,
		"kafka-silent": func(s *seen) {
			outage(s)
			s.Stalled = true
		},
		"database-away": func(s *seen) {
			s.perSecond, s.moved, s.InFlight, s.Connected, s.ConnectedSince = 0, began, InFlight{}, false, began
			s.Problems, s.Slot.AskedAt = []Problem{database}, began
		},
		"redis-away": func(s *seen) {
			s.Problems, s.Positions.Saved, s.Positions.Confirmed, s.Checkpoint.SavedAt = []Problem{redis}, "0/5AC3780", "0/5AC3780", began.Add(-time.Second)
			retains(s, 38_541_888)
		},
		"no-standby": func(s *seen) {
			s.gone, s.standbys = "relay-2:9464", []standby{}
			s.before, s.before.Since = verdictOf(&s.situation), at("15:30:00")
		},
		"slot-near-limit": func(s *seen) {
			retains(s, 800_000_000)
			s.gone, s.standbys = "relay-2:9464", []standby{}
			s.before, s.before.Since = verdictOf(&s.situation), at("15:33:03")
		},
		"letters": func(s *seen) {
			s.DeadLetters = &cdc.DeadLetters{Events: 200, Held: 18, Keys: 20, Oldest: at("15:21:00")}
		},
		"letters-10000": func(s *seen) {
			s.DeadLetters = &cdc.DeadLetters{Events: 10_000, Held: 909, Keys: 800, Oldest: at("15:21:00")}
		},
		"topics-300": func(*seen) {},
		"stopping": func(s *seen) {
			s.State, s.Since, s.Lag.Seconds, s.Positions.Received = "stopping", at("15:36:12"), 6.1, "0/7BFD8F8"
			s.InFlight = InFlight{Events: 5753, Bytes: 1_840_960, Since: at("15:36:12")}
		},
		"starting": func(s *seen) {
			follows(s)
			s.State, s.Since, s.StartedAt, s.instance, s.Leader = "starting", at("15:36:12"), at("15:36:12"), "relay-1:9464", ""
			s.Problems, s.before = []Problem{{With: "kafka", Since: at("15:36:13"), Cause: kafka.Cause, Fix: kafka.Fix}}, Verdict{}
		},
		"parked": func(s *seen) {
			outage(s)
			retains(s, 5_541_888)
			s.State, s.Since, s.Connected, s.InFlight, s.Slot.AskedAt = "parked", began, false, InFlight{}, began
			s.LastError = &Error{
				Cause: `event 01890a5d-ac96-774b-bcce-b302099a8057 of public.outbox (Refund 7) has no topic: no route matches it and it names none`,
				Fix:   `add a route, or go past it with errors.unroutable: dead_letter or errors.skip: ["01890a5d-ac96-774b-bcce-b302099a8057"]`, At: began,
			}
		},
	} {
		s := usually()
		change(s)
		all[name] = s.page()
	}
	return all
}

// usually is a leader under load, whose standby is there.
func usually() *seen {
	safe, speed := int64(1_068_199_936), 250_000.0
	s := &seen{
		situation: situation{now: at("15:36:18"), moved: at("15:36:17"), walPerSecond: &speed, before: Verdict{State: Publishing, Since: at("12:11:40")}},
		instance:  "relay-1:9464", standbys: []standby{{"relay-2:9464", "http://relay-2:9464/", at("12:11:42")}}, perSecond: 992.1,
		incidents: incidents{[]incident{
			{What: "standby", Cause: "slot cdc_relay is active for PID 4690 from 10.0.0.8", From: at("08:02:11"), To: at("12:11:40")},
			{What: "takeover", From: at("12:11:40")},
			{What: "checkpoint", Server: "redis-1:6379", Cause: "connection refused", From: at("12:20:05"), To: at("12:20:30")},
		}},
	}
	s.State, s.Since, s.Ready, s.Connected, s.ConnectedSince = "leading", at("12:11:40"), true, true, at("12:11:40")
	s.Source = Source{SystemID: "7710580834121239349", Database: "orders", Slot: "cdc_relay", Timeline: 1}
	s.Positions = Positions{"0/7A3C1F8", "0/7A3C1E0", "0/7A3C1C0", "0/7A3C1C0"}
	s.Lag.Seconds, s.InFlight, s.Checkpoint.SavedAt = 0.012, InFlight{Events: 12, Bytes: 3456, Since: at("15:36:18")}, at("15:36:18")
	s.Slot = &cdc.SlotStatus{Status: "reserved", RetainedBytes: 5_541_888, SafeBytes: &safe, AskedAt: at("15:36:15")}
	s.DeadLetters, s.Version, s.StartedAt = new(cdc.DeadLetters), "v0.1.0", at("08:02:11")
	return s
}

func (s *seen) page() *page {
	v, now := verdictOf(&s.situation), s.numbers()
	sent := buckets{{0.0038, 0}, {0.0042, 900}}
	if s.State == "leading" {
		now.PerSecond = &s.perSecond
		if p50, p99 := 0.004, 0.011; s.perSecond > 0 {
			now.P50, now.P99 = &p50, &p99
		} else {
			sent = nil
		}
	}
	s.Verdict, s.Now, s.Instance = &v, now, s.instance
	s.incidents.note(&s.Status, s.now)
	o := &Options{Servers: Servers{"db-1:5432/orders", "k1:9092, k2:9092, k3:9092", "redis-1:6379", true}}
	p := &page{
		Status: s.Status, At: s.now, Leader: s.leader, Steps: steps(o, &s.Status, &numbers{sent: sent}, &numbers{}, s.now), Standbys: s.standbys, Peers: true,
		History: shown{Samples: []row{}}, Incidents: s.incidents.newest(), Topics: topics{List: []topic{}}, Partitions: []partitions{},
	}
	if s.leader == nil && s.State == "standby" && len(s.problems("database")) == 0 {
		p.Leader = &Leader{Name: s.Leader}
	}
	if s.State == "leading" || s.State == "stopping" || s.State == "parked" {
		for i, name := range []string{"orders", "payments", "shipments"} {
			share, p99 := []float64{0.7, 0.25, 0.05}[i], 0.011
			rate := s.perSecond * share
			p.Topics.List = append(p.Topics.List, topic{Name: name, Published: 12_000_000 * share, PerSecond: &rate, P99: &p99, Last: s.moved})
		}
		ahead, oldest, none := 14.0, 2_592_000.0, 0.0
		p.Topics.Seconds, p.Partitions = 900, append(p.Partitions, partitions{"outbox", &ahead, &oldest, &none, &none})
	}
	return p
}

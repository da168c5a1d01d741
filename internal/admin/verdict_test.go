package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// What the verdict says, how bad it is, and what it must not say, beside the states of TestStatesOfPage.
func TestVerdict(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	safe, speed, none := int64(300<<20), float64(300<<10), 0.0
	kafka := Problem{With: "kafka", Server: "k1:9092", Since: ago(2 * time.Minute), Cause: "connection refused", Fix: "check that it runs"}
	redis := Problem{With: "checkpoint", Since: ago(time.Minute), Cause: "position not saved: Redis refused"}
	// leading is a relay that has published for an hour.
	leading := func(change func(*situation)) *situation {
		s := &situation{now: now, moved: ago(time.Second), walPerSecond: &speed, before: Verdict{State: Publishing, Since: ago(time.Hour)}}
		s.State, s.Since, s.Connected, s.Source.Slot = "leading", ago(time.Hour), true, "orders"
		s.Slot = &cdc.SlotStatus{Status: "reserved", RetainedBytes: 10 << 20, SafeBytes: &safe, AskedAt: ago(time.Second)}
		s.DeadLetters = new(cdc.DeadLetters)
		change(s)
		return s
	}
	in := func(state string, change func(*situation)) *situation {
		return leading(func(s *situation) {
			s.State, s.Since, s.Connected, s.Slot, s.DeadLetters, s.before = state, ago(time.Minute), false, nil, nil, Verdict{}
			change(s)
		})
	}
	for _, tt := range []struct {
		name string
		s    *situation
		want Verdict // of texts a part
		not  string
	}{
		{"300 topics, one of which waits", leading(func(s *situation) { s.InFlight = InFlight{Events: 900, Since: ago(time.Minute)} }), Verdict{State: Publishing, Level: Good, Title: "Publishing"}, ""},
		{
			"standby, nobody knows", in("standby", func(s *situation) { s.Leader = "slot is active for PID 7 from 10.0.0.2" }),
			Verdict{State: StandingBy, Level: Idle, Title: "whether the leader publishes is not known", Cause: "PID 7", Fix: "http.peers"},
			"",
		},
		{"Kafka away", leading(func(s *situation) {
			s.Problems, s.moved, s.InFlight = []Problem{kafka}, ago(121*time.Second), InFlight{Events: 5, Since: ago(2 * time.Minute)}
		}), Verdict{
			State: NotPublishing, Level: Bad, Title: "Not publishing", Since: kafka.Since, Cause: "k1:9092: connection refused", Fix: "check that it runs",
			Effect: "No event is lost: they wait in the database's WAL. At this speed the slot is lost at 2026-01-02T15:17:03Z, and with it what is not published by then.", LostAt: time.Date(2026, 1, 2, 15, 17, 3, 0, time.UTC),
		}, ""},
		{
			"Kafka away, nothing is written", leading(func(s *situation) { s.Problems, s.moved, s.walPerSecond = []Problem{kafka}, time.Time{}, &none }),
			Verdict{State: NotPublishing, Level: Bad, Title: "Not publishing", Effect: "WAL, which does not grow now"},
			"is lost at",
		},
		{
			"Kafka away, speed not known", leading(func(s *situation) { s.Problems, s.moved, s.walPerSecond = []Problem{kafka}, time.Time{}, nil }),
			Verdict{State: NotPublishing, Level: Bad, Title: "Not publishing", Effect: "How fast it grows is not known yet"},
			"does not grow",
		},
		{
			"Kafka away, no limit", leading(func(s *situation) { s.Problems, s.moved, s.Slot.SafeBytes = []Problem{kafka}, time.Time{}, nil }),
			Verdict{State: NotPublishing, Level: Bad, Title: "Not publishing", Effect: "no limit but the disk"},
			"is lost at",
		},
		{"Kafka away, on MySQL", leading(func(s *situation) {
			kept := time.Hour
			s.Problems, s.moved, s.Slot, s.walPerSecond, s.binlogKept, s.Lag.Seconds = []Problem{kafka}, time.Time{}, nil, nil, &kept, 120
		}), Verdict{State: NotPublishing, Level: Bad, Title: "Not publishing", Effect: "binlog, which is kept until 2026-01-02T15:58:00Z", LostAt: time.Date(2026, 1, 2, 15, 58, 0, 0, time.UTC)}, ""},
		{"Kafka away for longer than MySQL keeps binlogs", leading(func(s *situation) {
			kept := time.Hour
			s.Problems, s.moved, s.Slot, s.walPerSecond, s.binlogKept, s.Lag.Seconds = []Problem{kafka}, time.Time{}, nil, nil, &kept, 4000
		}), Verdict{State: NotPublishing, Level: Bad, Title: "Not publishing", Effect: "may be lost"}, "No event is lost"},
		{"the connection is made again", leading(func(s *situation) { s.Connected, s.ConnectedSince = false, ago(time.Second) }), Verdict{State: Publishing, Level: Good, Title: "Publishing"}, ""},
		{
			"the WAL is not read", leading(func(s *situation) { s.Connected, s.ConnectedSince = false, ago(time.Minute) }),
			Verdict{State: NotPublishing, Level: Bad, Title: "Not publishing", Cause: "is not read"},
			"",
		},
		{
			"one broker away, the others go on", leading(func(s *situation) { s.Problems = []Problem{kafka} }),
			Verdict{State: PublishingBut, Level: Warn, Title: "Publishing, but a part of Kafka is away", Since: kafka.Since, Cause: "k1:9092"},
			"",
		},
		{"one partition without a leader", leading(func(s *situation) {
			s.Problems, s.Stalled, s.InFlight = []Problem{kafka}, true, InFlight{Events: 900, Since: ago(2 * time.Minute)}
		}), Verdict{State: PublishingBut, Level: Warn, Title: "Publishing, but a part of Kafka is away", Since: kafka.Since}, "acknowledges nothing"},
		{"the cause names the server", leading(func(s *situation) {
			s.Problems, s.moved = []Problem{{With: "kafka", Server: "k1:9092", Since: ago(time.Minute), Cause: "Kafka at k1:9092: refused"}}, time.Time{}
		}), Verdict{State: NotPublishing, Level: Bad, Title: "Not publishing", Cause: "Kafka at k1:9092: refused"}, "k1:9092: Kafka"},
		{"all brokers away", leading(func(s *situation) { s.Problems, s.moved = []Problem{kafka, kafka, kafka}, time.Time{} }), Verdict{State: NotPublishing, Level: Bad, Title: "Not publishing", Cause: "k1:9092: connection refused (and 2 more)"}, ""},
		{"a broker restarts", leading(func(s *situation) {
			s.Problems = []Problem{{With: "kafka", Since: ago(2 * time.Second), Cause: "EOF"}}
		}), Verdict{State: PublishingBut, Level: Warn, Title: "a part of Kafka is away"}, ""},
		{"silent, before a request has timed out", leading(func(s *situation) {
			s.moved, s.InFlight = ago(25*time.Second), InFlight{Events: 5, Since: ago(20 * time.Second)}
		}), Verdict{State: NotPublishing, Level: Bad, Title: "Not publishing", Since: ago(20 * time.Second), Cause: "Kafka acknowledges nothing", Command: "cdc-relay check"}, ""},
		{
			"no room for letters", leading(func(s *situation) {
				s.DeadLetters, s.moved, s.InFlight = &cdc.DeadLetters{Events: 1000, Full: true}, ago(time.Hour), InFlight{Events: 5, Since: ago(20 * time.Minute)}
			}),
			Verdict{State: NotPublishing, Level: Bad, Title: "Not publishing", Cause: "no more dead letters", Command: "cdc-relay dlq list"},
			"",
		},
		{"the slot was seen long ago", leading(func(s *situation) { s.Slot.RetainedBytes, s.Slot.AskedAt = 700<<20, ago(time.Hour) }), Verdict{State: Publishing, Level: Good, Title: "Publishing"}, "slot"},
		{
			"rows are not marked", leading(func(s *situation) {
				s.Problems = []Problem{{With: "write_back", Since: ago(time.Hour), Cause: "denied"}}
			}),
			Verdict{State: PublishingBut, Level: Warn, Title: "published rows are not marked", Cause: "denied"},
			"",
		},
		{"alone by choice", leading(func(*situation) {}), Verdict{State: Publishing, Level: Good, Title: "Publishing"}, "standby"},
		{"behind", leading(func(s *situation) { s.Lag.Seconds, s.InFlight.Since = 125, ago(time.Second) }), Verdict{State: PublishingBut, Level: Warn, Title: "events are 2m5s late", Cause: "is 2m5s old"}, ""},
		{"a replica that lags", leading(func(s *situation) { s.Lag.Seconds = 600 }), Verdict{State: PublishingBut, Level: Warn, Title: "events are 10m0s late", Cause: "a replica that lags"}, "Kafka"},
		{"the database fails in an outage of Kafka", leading(func(s *situation) {
			s.Problems, s.Connected, s.before = []Problem{{With: "database", Since: ago(18 * time.Second), Cause: "refused"}}, false, Verdict{State: NotPublishing, Since: kafka.Since}
		}), Verdict{State: NotPublishing, Level: Bad, Title: "Not publishing", Since: kafka.Since, Cause: "refused"}, ""},
		{"stopping on an error, and Kafka is away", in("stopping", func(s *situation) {
			s.Problems, s.LastError = []Problem{kafka}, &Error{Cause: "the row has no key", Fix: "set key"}
		}), Verdict{State: Stopping, Level: Warn, Title: "Stopping", Cause: "the row has no key", Fix: "set key"}, "k1:9092"},
		{"the database holds rows back for a standby", leading(func(s *situation) {
			s.Problems, s.moved = []Problem{{With: "database", Since: ago(time.Minute), Holds: true, Cause: "a commit waits", Fix: "start the standby"}}, ago(61*time.Second)
		}), Verdict{State: NotPublishing, Level: Bad, Title: "Not publishing", Since: ago(time.Minute), Cause: "a commit waits", Fix: "start the standby"}, ""},
		{"the database holds rows back, and what was in flight was acknowledged since", leading(func(s *situation) {
			s.Problems, s.moved = []Problem{
				{With: "database", Since: ago(time.Hour), Cause: "too many connections"},
				{With: "database", Since: ago(time.Minute), Holds: true, Cause: "a commit waits", Fix: "start the standby"},
			}, ago(55*time.Second)
		}), Verdict{State: NotPublishing, Level: Bad, Title: "Not publishing", Since: ago(time.Minute), Cause: "a commit waits", Fix: "start the standby"}, "connections"},
		{"the database takes no second connection", leading(func(s *situation) {
			s.Problems, s.moved = []Problem{{With: "database", Since: ago(time.Minute), Cause: "too many connections"}}, time.Time{} // nothing is written
		}), Verdict{State: PublishingBut, Level: Warn, Title: "does not answer everything", Cause: "too many connections"}, ""},
		{"a long fix with two commands", in("parked", func(s *situation) {
			s.LastError = &Error{Fix: strings.Repeat("x", longestText) + "`cdc-relay repair --since TIME`, `cdc-relay position set 0/1 --skip-events`"}
		}), Verdict{State: Parked, Level: Bad, Title: "parked", Fix: "--skip-events`"}, ""},
		{"another doubt", leading(func(s *situation) {
			s.gone, s.before = "b", Verdict{State: PublishingBut, Fix: "end it", Since: ago(time.Hour)}
		}), Verdict{State: PublishingBut, Level: Warn, Title: "no standby answers", Since: now}, ""},
		{"several", leading(func(s *situation) {
			s.Problems, s.gone, s.DeadLetters = []Problem{kafka, redis}, "b", &cdc.DeadLetters{Events: 1}
			s.moved = time.Time{}
		}), Verdict{State: NotPublishing, Level: Bad, Title: "Not publishing", Also: []Reason{{Title: "the position is not saved"}, {Title: "1 dead letter"}, {Title: "no standby answers"}}}, ""},
		{"starting", in("starting", func(*situation) {}), Verdict{State: Starting, Level: Idle, Title: "Starting", Since: ago(time.Minute)}, ""},
		{"starting again in an outage of Kafka, and rows are not marked", in("starting", func(s *situation) {
			s.Problems = []Problem{{With: "write_back", Since: ago(time.Hour), Cause: "denied"}, kafka}
		}), Verdict{State: Starting, Level: Bad, Title: "Starting: waiting for Kafka", Cause: "k1:9092"}, "denied"},
		{"starting in an outage of Kafka, with the slot", in("starting", func(s *situation) {
			s.Problems, s.Slot = []Problem{kafka}, &cdc.SlotStatus{SafeBytes: &safe, AskedAt: ago(time.Second)}
		}), Verdict{State: Starting, Level: Bad, Title: "Starting: waiting for Kafka", Effect: "the slot is lost at 2026-01-02T15:17:03Z", LostAt: time.Date(2026, 1, 2, 15, 17, 3, 0, time.UTC)}, ""},
		{"leading for a moment, not yet connected", leading(func(s *situation) { s.Connected, s.Since = false, ago(time.Second) }), Verdict{State: Starting, Level: Idle, Title: "Starting: connecting"}, ""},
		{"a hostile error", leading(func(s *situation) {
			s.Problems = []Problem{{With: "checkpoint", Since: now, Cause: "a\u202eb\x1b[2J\n" + strings.Repeat("x", 1<<20)}}
		}), Verdict{State: PublishingBut, Level: Bad, Title: "the position is not saved", Cause: `a\u202eb\x1b[2J\nxxx`}, "\u202e"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := verdictOf(tt.s)
			if got.State != tt.want.State || got.Level != tt.want.Level || got.Command != tt.want.Command || !got.LostAt.Equal(tt.want.LostAt) && !tt.want.LostAt.IsZero() {
				t.Errorf("%+v", got)
			}
			if !tt.want.Since.IsZero() && !got.Since.Equal(tt.want.Since) {
				t.Errorf("since %s, want %s", got.Since, tt.want.Since)
			}
			for _, x := range [][2]string{{got.Title, tt.want.Title}, {got.Cause, tt.want.Cause}, {got.Fix, tt.want.Fix}, {got.Effect, tt.want.Effect}} {
				text, want := x[0], x[1]
				if !strings.Contains(text, want) || len(text) > 2*longestText {
					t.Errorf("%q does not say %q", text, want)
				}
			}
			titles := func(v Verdict) (all string) {
				for _, r := range v.Also {
					all += r.Title + "|"
				}
				return all
			}
			if titles(tt.want) != titles(got) {
				t.Errorf("also: %q", got.Also)
			}
			if all := got.Title + got.Cause + got.Effect + titles(got); tt.not != "" && strings.Contains(all, tt.not) {
				t.Errorf("%q says %q", all, tt.not)
			}
		})
	}
}

// A standby that was there and does not answer any more is gone, not unknown.
func TestStandbyIsGone(t *testing.T) {
	code := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte(`{"state":"standby","group":"orders","instance":"b:9464","verdict":{"state":"standing_by"}}`))
	}))
	defer s.Close()
	f := newFleet(&Options{Peers: Peers{URLs: []string{s.URL}}})
	for _, gone := range []bool{false, true} {
		if gone {
			code = http.StatusInternalServerError
		}
		f.look(t.Context())
		leader := &Status{State: "leading", Group: "orders", Instance: "a:9464"}
		if _, standbys, name := f.others(leader); (name == "b:9464") != gone || standbys == nil || (len(standbys) == 0) != gone {
			t.Errorf("the standby is gone: %t; %q, standbys %v", gone, name, standbys)
		}
	}
}

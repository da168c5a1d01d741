package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// away fails while a server is away.
func away(until time.Time) error {
	if time.Now().Before(until) {
		return &cdc.FixableError{Cause: errors.New("connection refused"), Fix: "start the server"}
	}
	return nil
}

// A start waits for the database and then for Kafka, each for up to StartupTimeout.
func TestStartWaits(t *testing.T) {
	for _, tt := range []struct {
		name            string
		timeout         time.Duration
		database, kafka time.Duration // how long each is away
		fails           time.Duration // when the start gives up; 0: it does not
	}{
		{"database comes", 2 * time.Minute, time.Minute, 0, 0},
		{"both come", 2 * time.Minute, 100 * time.Second, 200 * time.Second, 0},
		{"database stays away", 2 * time.Minute, 24 * time.Hour, 0, 2 * time.Minute},
		{"Kafka stays away", 2 * time.Minute, 0, 24 * time.Hour, 2 * time.Minute},
		{"for ever", 0, 50 * time.Minute, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, began := &fakes{batches: 1}, time.Now()
				f.acquire = func(int) error { return away(began.Add(tt.database)) }
				f.open = func() error { return away(began.Add(tt.kafka)) }
				o := options()
				o.StartupTimeout = tt.timeout
				err := runFor(t, newRelay(f, o), time.Hour)
				if tt.fails == 0 {
					if err != nil || f.confirmed != 1 {
						t.Errorf("confirmed %d: %v", f.confirmed, err)
					}
					return
				}
				stop, ok := errors.AsType[*cdc.StopError](err)
				if !ok || stop.Class != cdc.ClassRuntime || stop.Reason != "startup_timeout" ||
					cdc.Explain(err) != "gave up waiting after 2m0s (startup_timeout): connection refused. Fix: start the server." {
					t.Errorf("%+v: %s", stop, cdc.Explain(err))
				}
				if took := time.Since(began); took > tt.fails || took < tt.fails-2*startInterval {
					t.Errorf("gave up after %s", took)
				}
			})
		})
	}
}

// A standby waits for the database for as long as the leader does, and stays one. Nor has its start a limit when it then leads.
func TestStandbyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, began := &fakes{batches: 1}, time.Now()
		f.acquire = func(attempt int) error {
			if attempt == 1 {
				return cdc.ErrStandby
			}
			return away(began.Add(time.Hour))
		}
		f.open = func() error { return away(began.Add(100 * time.Minute)) }
		reg := prometheus.NewRegistry()
		f.durable, f.sink = make(chan cdc.Durable), isNew
		r := New(options(), Stages{Source: f, Router: f, Sink: f, Checkpointer: f}, slog.New(slog.DiscardHandler), reg)
		counts := func(problems int, takeovers float64) {
			t.Helper()
			n, err := testutil.GatherAndCount(reg, "cdc_relay_problem_since_timestamp_seconds")
			if took := testutil.ToFloat64(r.metrics.takeovers); err != nil || n != problems || took != takeovers {
				t.Errorf("%d problems, want %d; %v takeovers, want %v; %v", n, problems, took, takeovers, err)
			}
		}
		done := make(chan error)
		go func() { done <- runFor(t, r, 2*time.Hour) }()
		<-time.After(50 * time.Minute)
		if st := r.Status(); st.State != StateStandby || len(st.Problems) != 1 || r.Ready() != nil {
			t.Errorf("%+v, ready: %v", st, r.Ready())
		}
		counts(1, 0)
		if err := <-done; err != nil || f.confirmed != 1 || f.attempts > 1000 {
			t.Errorf("confirmed %d after %d attempts: %v", f.confirmed, f.attempts, err)
		}
		counts(0, 1)
	})
}

// While a start waits, the status has the reason, and it is logged at growing intervals, not at each attempt.
func TestStartReportsWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{}
		f.acquire = func(int) error { return away(time.Now().Add(time.Second)) }
		o := options()
		o.StartupTimeout = 0
		var log bytes.Buffer
		o.Problems = cdc.NewProblems(slog.New(slog.NewTextHandler(&log, nil)))
		r := newRelay(f, o)
		stop := running(t, r)
		<-time.After(time.Hour)
		if st, err := r.Status(), r.Ready(); st.State != StateStarting || err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("state %s, ready %v", st.State, err)
		}
		if err := stop(); err != nil {
			t.Errorf("stopped while waiting: %v", err)
		}
		o.Problems.Report(startReporter) // it is logged no more
		logged := strings.Count(log.String(), `error="connection refused"`)
		if logged < 5 || logged > 12 || f.attempts < 100*logged/2 {
			t.Errorf("logged %d times in an hour, %d attempts:\n%s", logged, f.attempts, log.String())
		}
	})
}

// An error that waiting does not fix ends a start at the first attempt.
func TestStartFailsAtOnce(t *testing.T) {
	for _, class := range []cdc.Class{cdc.ClassConfig, cdc.ClassPosition, cdc.ClassFenced} {
		synctest.Test(t, func(t *testing.T) {
			f, began := &fakes{}, time.Now()
			f.acquire = func(int) error { return cdc.Stop(class, "reason", errors.New("cause"), "fix") }
			err := newRelay(f, options()).Run(t.Context())
			stop, ok := errors.AsType[*cdc.StopError](err)
			if !ok || stop.Class != class || f.attempts != 1 || time.Since(began) > 0 {
				t.Errorf("after %d attempts and %s: %v", f.attempts, time.Since(began), err)
			}
		})
	}
}

// The time that a relay stood by does not count towards its wait for a database that goes away, or that refuses it for a while: a password
// may be rotated.
func TestStandbyWaitsForTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, began := &fakes{batches: 1}, time.Now()
		f.acquire = func(int) error {
			if time.Since(began) < 30*time.Minute {
				return fmt.Errorf("held: %w", cdc.ErrStandby)
			}
			if time.Since(began) < 50*time.Minute {
				return cdc.Stop(cdc.ClassConfig, "password", errors.New("password authentication failed"), "correct it")
			}
			return away(began.Add(51 * time.Minute))
		}
		if _, err := drive(t, f, options()); err != nil || f.confirmed != 1 {
			t.Errorf("confirmed %d: %v", f.confirmed, err)
		}
	})
}

// A relay that is superseded before its sink is open publishes nothing. If it notices in time, it does not fence its
// successor either.
func TestSupersededWhileTheSinkOpens(t *testing.T) {
	for name, tt := range map[string]struct{ claimed, opens int }{
		"while Kafka is away": {1, 1},
		"while Kafka answers": {3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, opens := &fakes{batches: 1}, 0
				f.open = func() error {
					if opens++; opens == tt.claimed {
						f.stored = &cdc.Checkpoint{Generation: f.stored.Generation + 1}
					}
					if opens < 3 {
						return errors.New("away")
					}
					return nil
				}
				f.save = func(c cdc.Checkpoint) error {
					if f.stored != nil && c.Generation < f.stored.Generation {
						return cdc.ErrFenced
					}
					return nil
				}
				_, err := drive(t, f, options())
				if stop, ok := errors.AsType[*cdc.StopError](err); !ok || stop.Class != cdc.ClassFenced {
					t.Errorf("ended with %v", err)
				}
				if opens != tt.opens || f.runs != 0 {
					t.Errorf("opened %d times, read %d times", opens, f.runs)
				}
			})
		})
	}
}

// A leader is not ready once Kafka or the database has been away for some seconds, and is ready without its checkpoint store, or while
// rows are not marked. The
// reason is the present problem, never a past error.
func TestReadinessIsAboutThePresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{}
		f.acquire = func(attempt int) error {
			if attempt == 1 {
				return errors.New("an error of the start")
			}
			return nil
		}
		o := options()
		o.Problems = new(cdc.Problems)
		r := newRelay(f, o)
		stop := running(t, r)
		<-time.After(time.Minute)
		if st, err := r.Status(), r.Ready(); st.State != StateLeading || err != nil || !st.LastPast || len(st.Problems) != 0 {
			t.Errorf("after the start: %v, %+v", err, st)
		}
		for _, with := range []cdc.Dependency{cdc.OnKafka, cdc.OnDatabase, cdc.OnCheckpoint, cdc.OnRows} {
			o.Problems.Report("test", cdc.Problem{With: with, Err: errors.New("refused")})
			if err := r.Ready(); err != nil {
				t.Errorf("%s: at once: %v", with, err)
			}
			if st := r.Status(); st.LastPast || st.LastError.Error() != "refused" {
				t.Errorf("%s: %+v", with, st)
			}
			<-time.After(unreadyAfter)
			publishes := with == cdc.OnCheckpoint || with == cdc.OnRows
			if err := r.Ready(); publishes && err != nil ||
				!publishes && (err == nil || !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "start")) {
				t.Errorf("%s: %v", with, err)
			}
			o.Problems.Report("test")
			if err := r.Ready(); err != nil {
				t.Errorf("%s: after its end: %v", with, err)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// absentLetters cannot be read the first time.
type absentLetters struct {
	Letters

	loads int
}

func (l *absentLetters) Load(context.Context, cdc.Source, cdc.Progress) error {
	if l.loads++; l.loads == 1 {
		return errors.New("connection refused")
	}
	return nil
}

func (*absentLetters) Run(context.Context, func() cdc.Progress) error { return nil }
func (*absentLetters) Stuck() (last uint64, stuck bool)               { return 0, false }

// The transactional ID has changed, and the index of dead letters cannot be read at once: the next try is not fenced by the claim of the
// same start.
func TestLettersAreReadAgainUnderAnotherTransactionalID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{batches: 1, durable: make(chan cdc.Durable), stored: &cdc.Checkpoint{Generation: 1, Fence: "earlier"}}
		f.save = func(c cdc.Checkpoint) error { // as the stores do
			if s := f.stored; *s != c && (c.Generation < s.Generation || c.Generation == s.Generation && c.Sequence <= s.Sequence) {
				return cdc.ErrFenced
			}
			return nil
		}
		o := options()
		o.TransactionalID = "renamed"
		r := New(o, Stages{Source: f, Router: f, Sink: f, Checkpointer: f, Letters: &absentLetters{}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		if err := runFor(t, r, time.Hour); err != nil || f.stored.Fence != "renamed" {
			t.Errorf("stored %+v, ended with %v", f.stored, err)
		}
	})
}

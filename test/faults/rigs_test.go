package faults

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// deliveries are the modes of delivery.
func deliveries() []cdctest.Delivery {
	return []cdctest.Delivery{cdctest.AtLeastOnce, cdctest.ExactlyOnce}
}

// eachDelivery runs a test with each mode of delivery.
func eachDelivery(t *testing.T, test func(t *testing.T, d cdctest.Delivery)) {
	t.Helper()
	for _, d := range deliveries() {
		t.Run(string(d), func(t *testing.T) { test(t, d) })
	}
}

// onEach runs a test on each source, all at the same time, beside other tests.
func onEach(t *testing.T, test func(t *testing.T, s source)) {
	t.Helper()
	t.Parallel()
	onEachAlone(t, test)
}

// onEachAlone is onEach for a test that stops or slows servers, or purges their logs: no other test runs beside it.
func onEachAlone(t *testing.T, test func(t *testing.T, s source)) {
	t.Helper()
	for _, s := range sources() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

// inBothModes runs a test on each source with each kind of delivery, all at the same time.
func inBothModes(t *testing.T, test func(t *testing.T, s source, delivery func(*cdctest.RigOptions))) {
	t.Helper()
	inModes(t, nil, test)
}

// inEitherMode is inBothModes for what does not depend on how a source keeps positions: MySQL and MariaDB have one kind of delivery each.
func inEitherMode(t *testing.T, test func(t *testing.T, s source, delivery func(*cdctest.RigOptions))) {
	t.Helper()
	inModes(t, map[string]cdctest.Delivery{testenv.MySQLFlavor: cdctest.AtLeastOnce, testenv.MariaDBFlavor: cdctest.ExactlyOnce}, test)
}

// inModes runs a test on each source with each kind of delivery, or the only one that it has.
func inModes(t *testing.T, only map[string]cdctest.Delivery, test func(t *testing.T, s source, delivery func(*cdctest.RigOptions))) {
	t.Helper()
	onEach(t, func(t *testing.T, s source) {
		modes := deliveries()
		if one, ok := only[s.name]; ok {
			modes = []cdctest.Delivery{one}
		}
		for _, d := range modes {
			t.Run(string(d), func(t *testing.T) {
				t.Parallel()
				test(t, s, func(o *cdctest.RigOptions) { o.Delivery = d })
			})
		}
	})
}

// besides are rigs on one server, one for each kind of delivery. All get the same fault at the same time.
func besides(t *testing.T, open func(testing.TB) cdctest.Database, checkpoint cdctest.Checkpoint, change func(*cdctest.RigOptions)) []*cdctest.Rig {
	t.Helper()
	all := make([]*cdctest.Rig, 0, 2)
	for _, d := range deliveries() {
		tb := ofSource{t, string(d)}
		all = append(all, newRig(tb, open(tb), checkpoint, func(o *cdctest.RigOptions) {
			o.Delivery = d
			if change != nil {
				change(o)
			}
		}))
	}
	return all
}

// rigs are one rig for each source, with the position in a file. All get the same fault at the same time.
func rigs(t *testing.T, change func(*cdctest.RigOptions)) []*cdctest.Rig {
	t.Helper()
	all := make([]*cdctest.Rig, 0, 3)
	for name, source := range sources() {
		tb := ofSource{t, name}
		all = append(all, newRig(tb, source.open(tb), cdctest.InFile, change))
	}
	if len(all) == 0 {
		t.Fatalf("%s selects no source: use postgres, mysql or mariadb", EnvSources)
	}
	return all
}

// everywhere are rigs for each source and kind of delivery, with the position in a file. All get the same fault at the same time.
func everywhere(t *testing.T, change func(*cdctest.RigOptions)) (all []*cdctest.Rig) {
	t.Helper()
	for name, s := range sources() {
		open := func(tb testing.TB) cdctest.Database { tb.Helper(); return s.open(ofSource{tb, name}) }
		all = append(all, besides(t, open, cdctest.InFile, change)...)
	}
	return all
}

// loaded starts each rig's relay and writers.
func loaded(rigs []*cdctest.Rig) []*cdctest.Load {
	for _, r := range rigs {
		r.Start()
	}
	loads := make([]*cdctest.Load, len(rigs))
	for i, r := range rigs {
		loads[i] = r.Load(cdctest.Workload{})
	}
	return loads
}

func verify(rigs []*cdctest.Rig) {
	stopLoads(rigs)
	for _, r := range rigs {
		r.Verify()
	}
}

// stopLoads stops the writers of all before the first is verified: they would only load the machine.
func stopLoads(rigs []*cdctest.Rig) {
	for _, r := range rigs {
		r.StopLoad()
	}
}

// once is Verify where no event is repeated.
func once(t *testing.T, r *cdctest.Rig) {
	t.Helper()
	repeats(t, r, 0)
}

// repeats is Verify where that many events are repeated. More are a violation, unless a stop gave up on a busy machine; fewer only say
// that the fault came too late.
func repeats(t *testing.T, r *cdctest.Rig, want int) {
	t.Helper()
	report := r.Verify()
	log, err := os.ReadFile(r.Relay.LogPath())
	r.Must(err)
	switch gaveUp := bytes.Contains(log, []byte("not everything in flight")); {
	case report.Duplicates > want && !gaveUp:
		r.Violation(cdctest.Duplicates, "%d events were repeated, want %d", report.Duplicates, want)
	case report.Duplicates != want:
		t.Errorf("%s: %d events were repeated, want %d", r.Topic, report.Duplicates, want)
	}
}

// startedOnce verifies that one process has done it all.
func startedOnce(r *cdctest.Rig) {
	if n := r.Relay.Starts(); n != 1 {
		r.Must(fmt.Errorf("%s: the relay was started %d times", r.Topic, n))
	}
}

// inRedis runs a command on the rig's checkpoint.
func inRedis(r *cdctest.Rig, command string, args ...any) string {
	answer, err := r.Redis.Do(r.Within(time.Minute), append([]any{command, r.RedisKey()}, args...)...)
	r.Must(err)
	return answer
}

// awaitProgress waits until each rig has read n more events than now.
func awaitProgress(rigs []*cdctest.Rig, n int) {
	waits := make([]func(), len(rigs))
	for i, r := range rigs {
		waits[i] = r.Progress(n)
	}
	for _, wait := range waits {
		wait()
	}
}

// ofSource is a test with the name of a source in its name and messages.
type ofSource struct {
	testing.TB

	source string
}

func (s ofSource) Name() string { return s.TB.Name() + "/" + s.source }

func (s ofSource) Log(args ...any) { s.Helper(); s.Logf("%s", fmt.Sprint(args...)) }

func (s ofSource) Logf(format string, args ...any) {
	s.Helper()
	s.TB.Logf("%s: %s", s.source, fmt.Sprintf(format, args...))
}

func (s ofSource) Error(args ...any) { s.Helper(); s.Errorf("%s", fmt.Sprint(args...)) }

func (s ofSource) Errorf(format string, args ...any) {
	s.Helper()
	s.TB.Errorf("%s: %s", s.source, fmt.Sprintf(format, args...))
}

func (s ofSource) Fatal(args ...any) { s.Helper(); s.Fatalf("%s", fmt.Sprint(args...)) }

func (s ofSource) Fatalf(format string, args ...any) {
	s.Helper()
	s.TB.Fatalf("%s: %s", s.source, fmt.Sprintf(format, args...))
}

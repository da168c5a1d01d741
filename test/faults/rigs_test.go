package faults

import (
	"fmt"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

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

// awaitProgress waits until each rig has read n more events.
func awaitProgress(rigs []*cdctest.Rig, n int) {
	for _, r := range rigs {
		r.AwaitProgress(n)
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

package commands

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
)

// checkpoint returns the stored position as position show prints it; nil: there is none.
func (s *site) checkpoint() *string {
	s.t.Helper()
	r := s.raw("", "position", "show", "-o", "json")
	var shown struct{ Checkpoint *string }
	if err := json.Unmarshal([]byte(r.stdout), &shown); err != nil || r.code != 0 {
		s.t.Fatalf("position show: %v: %s", err, r)
	}
	return shown.Checkpoint
}

// TestStandbyOnMySQL: a relay whose lock another one holds stands by, and no command moves the position beside the leader.
//
//covers:binlogs 7 13 state
func TestStandbyOnMySQL(t *testing.T) {
	t.Parallel()
	onMySQL(t, func(s *site) {
		t := s.t
		relay := s.setup().start()
		url := relay.leading()
		second := s.start()
		second.namesLeader(`connection \d+ of the server \(from 127\.0\.0\.1:\d+\) holds the lock ".*"`)
		if line := second.await(`msg="standing by".*`); !strings.Contains(line, "another relay leads: connection ") || !strings.Contains(line, "holds the lock") {
			t.Errorf("standing by: %s", line)
		}
		if r := s.run("check"); r.code != 0 {
			t.Errorf("check beside a running relay: %s", r)
		}
		for _, command := range []string{"position reset", "position set " + *s.checkpoint(), "teardown", "teardown --table --yes"} {
			if r := s.run(strings.Fields(command)...); r.code != 1 || !strings.Contains(r.stderr, "a relay runs (connection ") || !strings.Contains(r.stderr, "stop it first") {
				t.Errorf("%s: %s", command, r)
			}
		}
		s.insert(1).published(url, 1)
		if code := relay.signal(syscall.SIGTERM); code != 0 {
			t.Errorf("SIGTERM: exit %d", code)
		}
		url = second.leading()
		s.insert(2).published(url, 2)
		if code := second.signal(syscall.SIGTERM); code != 0 {
			t.Errorf("SIGTERM: exit %d", code)
		}
		if r := s.run("position", "reset"); r.code != 0 {
			t.Errorf("position reset: %s", r)
		}
	})
}

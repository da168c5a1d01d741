package commands

import (
	"encoding/json"
	"fmt"
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

// TestPositionMovedBesideARelay: what moves or drops the position beside a relay that runs ends that relay, and it brings
// nothing back: with the checkpoint in Redis nobody else notices it on MySQL and MariaDB.
func TestPositionMovedBesideARelay(t *testing.T) {
	t.Parallel()
	onMySQL(t, func(s *site) {
		t := s.t
		s.setup()
		first := *s.checkpoint()
		for i, c := range []struct {
			command, says string
			leaves        *string
			lost          bool // Redis has lost the checkpoint before
		}{
			{"position reset", "was reset at", nil, false},
			{"position set " + first, "another relay", &first, false},
			{"teardown", "was reset at", nil, false},
			{"position set " + first, "another relay", &first, true},
			{"teardown", "was reset at", nil, true},
		} {
			relay := s.setup().start()
			url := relay.leading()
			s.insert(2*i+1).published(url, 2*i+1)
			if c.lost {
				if _, err := redis.Do(t.Context(), "DEL", "cdc-relay:{"+s.name+"}"); err != nil {
					t.Fatal(err)
				}
			}
			if r := s.run(strings.Fields(c.command)...); r.code != 0 {
				t.Fatalf("%s: %s", c.command, r)
			}
			s.insert(2*i + 2) // something to save
			if code := relay.wait(); code != 4 {
				t.Errorf("beside %s (%d) the relay ended with %d", c.command, i, code)
			}
			relay.await("cdc-relay: .*" + c.says)
			if left := s.checkpoint(); fmt.Sprint(left == nil) != fmt.Sprint(c.leaves == nil) || left != nil && *left != *c.leaves {
				t.Errorf("%s: the relay brought back %v", c.command, left)
			}
		}
	})
}

// TestPositionMovedBesideARelayWithFile: a checkpoint file in use is not changed, and neither is the table.
func TestPositionMovedBesideARelayWithFile(t *testing.T) {
	t.Parallel()
	onMySQL(t, func(s *site) {
		t := s.t
		s.fileCheckpoint("position").setup()
		relay := s.start()
		url := relay.leading()
		for _, command := range []string{"position reset", "position set " + *s.checkpoint(), "teardown --table --yes"} {
			if r := s.run(strings.Fields(command)...); r.code != 1 || !strings.Contains(r.stderr, "stop the other relay") {
				t.Errorf("%s: %s", command, r)
			}
		}
		s.insert(1).published(url, 1)
		if code := relay.signal(syscall.SIGTERM); code != 0 {
			t.Errorf("SIGTERM: exit %d", code)
		}
	})
}

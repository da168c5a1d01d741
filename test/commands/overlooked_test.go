package commands

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// checkpoint returns the stored position as position show prints it, or nil.
func (s *site) checkpoint() *string {
	s.t.Helper()
	r := s.raw("", "position", "show", "-o", "json")
	var shown struct{ Checkpoint *string }
	if err := json.Unmarshal([]byte(r.stdout), &shown); err != nil || r.code != 0 {
		s.t.Fatalf("position show: %v: %s", err, r)
	}
	return shown.Checkpoint
}

// On MySQL and MariaDB with a checkpoint in Redis, commands that move or drop the position cannot see a running relay.
// They end it instead, and it does not restore the old position.
func TestPositionMovedBesideARelay(t *testing.T) {
	t.Parallel()
	onMySQL(t, func(s *site) {
		t := s.t
		s.setup()
		first := *s.checkpoint()
		for i, c := range []struct {
			command, says string
			leaves        *string
			lost          bool // Redis lost the checkpoint before
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
				t.Errorf("after %s (%d) the relay exited with %d", c.command, i, code)
			}
			relay.await("cdc-relay: .*" + c.says)
			if left := s.checkpoint(); fmt.Sprint(left == nil) != fmt.Sprint(c.leaves == nil) || left != nil && *left != *c.leaves {
				t.Errorf("%s: the relay restored %v", c.command, left)
			}
		}
	})
}

// A checkpoint file in use is not changed, and the table is not dropped.
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

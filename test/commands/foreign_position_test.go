package commands

import (
	"strings"
	"syscall"
	"testing"
)

// Another relay's position in Kafka is neither reset nor torn down, unless somebody says that its database was replaced.
func TestForeignPositionTopic(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		t, kind := s.t, "postgres: {"
		if s.mysql != nil {
			kind = "mysql: {"
			s.replace("id: "+s.name, "id: first")
		}
		s.replace("kafka: {", "kafka: {position_topic: "+s.name+"-positions, ").config += "delivery: exactly-once\n"
		s.setup()
		relay := s.start()
		relay.leading()
		if code := relay.signal(syscall.SIGTERM); code != 0 {
			t.Fatalf("SIGTERM: exit %d", code)
		}
		own := s.config
		if s.mysql != nil {
			s.replace("id: first", "id: second")
		} else {
			s.replace(kind, kind+"slot: another, publication: cdc_relay, ")
		}
		s.says(2, "has the position of another source", "position", "reset")
		s.says(0, "kept, it is another relay's", "teardown", "--yes")
		other := s.config
		s.config = own
		if r := s.run("position", "show"); !strings.Contains(r.stdout, "next start") || strings.Contains(r.stdout, "none yet") {
			t.Errorf("position: %s", r)
		}
		s.config = other
		s.says(0, "dropped", "position", "reset", "--force")
	})
}

package commands

import (
	"strings"
	"testing"
)

// Another relay's position is neither reset in Kafka nor torn down, unless somebody says that its database was replaced.
func TestForeignPosition(t *testing.T) {
	t.Parallel()
	for _, delivery := range []string{"exactly-once", "at-least-once"} {
		t.Run(delivery, func(t *testing.T) {
			t.Parallel()
			foreignPosition(t, delivery)
		})
	}
}

func foreignPosition(t *testing.T, delivery string) {
	t.Helper()
	onAll(t, func(s *site) {
		t, kind, said := s.t, "postgres: {", "`cdc-relay position reset --force`"
		if s.mysql != nil {
			kind = "mysql: {"
			s.replace("id: "+s.name, "id: first")
		}
		if s.config += "delivery: " + delivery + "\n"; delivery == "exactly-once" {
			s.replace("kafka: {", "kafka: {position_topic: "+s.name+"-positions, ")
		}
		s.setup()
		relay := s.start()
		relay.leading()
		relay.stops()
		own := s.config
		if s.mysql != nil {
			s.replace("id: first", "id: second")
		} else {
			s.replace(kind, kind+"slot: another, publication: cdc_relay, ")
		}
		if delivery == "exactly-once" {
			s.says(2, "has the position of another source", "position", "reset")
			if s.mysql != nil {
				said = s.says(0, "has the position of another source", "position", "show")
			}
		}
		s.says(0, "kept, it is another relay's", "teardown", "--yes")
		other := s.config
		s.config = own
		if r := s.run("position", "show"); !strings.Contains(r.stdout, "next start") || strings.Contains(r.stdout, "none yet") {
			t.Errorf("position: %s", r)
		}
		s.config = other
		s.follows(0, "dropped", said, "position reset --force")
	})
}

package commands

import (
	"strings"
	"testing"
)

// event says where an event is: in the table, in Kafka, in the dead letters; what it cannot know it calls unknown.
func TestEvent(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		t := s.t
		if s.mysql != nil {
			s.replace("mysql: {", "mysql: {id: "+s.name+", ")
		}
		s.config += "errors: {unroutable: dead_letter}\n"
		s.setup()
		relay := s.start()
		url := relay.leading()
		s.event(1, "a", "")
		s.event(2, "b", "no topic, this")
		s.event(3, "a", "")
		s.published(url, 3)
		for _, tt := range []struct {
			id   int
			says string
		}{
			{1, "goes to topic NAME\npublished     NAME, partition "},
			{1, "dead letter   no\n"},
			{2, "not routed: event " + eventID(2)},
			{2, "published     no record in NAME since "},
			{2, "dead letter   unroutable since "},
			{9, "not there: never committed, or removed since (unknown)\npublished     no record in NAME since "},
			{9, "dead letter   no\nbefore saved  unknown\n"},
		} {
			if r := s.run("event", eventID(tt.id)); r.code != 0 || !strings.Contains(r.stdout, tt.says) {
				t.Errorf("event %d: want %q: %s", tt.id, tt.says, r)
			}
		}
		s.says(0, `"partition": `, "event", eventID(1), "-o", "json")
		s.says(2, "0 arguments were given", "event")
	})
}

package commands

import "testing"

// event says where an event is: in the table, in Kafka, in the dead letters; what it cannot know it calls unknown.
func TestEvent(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		s.config += "errors: {unroutable: dead_letter}\n"
		s.setup()
		relay := s.start()
		url := relay.leading()
		s.event(1, "a", "")
		s.event(2, "b", "no topic, this")
		s.event(3, "a", "")
		late, never := "UTC_TIMESTAMP(6) + INTERVAL 1 DAY", "'0000-00-00'"
		if s.mysql == nil {
			late, never = "now() + interval '1 day'", "'infinity'"
		}
		s.eventAt(4, late)
		s.eventAt(5, never)
		s.published(url, 5)
		for _, tt := range []struct {
			id   int
			says string
		}{
			{1, "goes to topic NAME, key a\npublished     NAME, partition "},
			{1, "dead letter   no\n"},
			{2, "not routed: event " + eventID(2)},
			{2, "published     no record in NAME since "},
			{2, "dead letter   unroutable since "},
			{9, "not there: never committed, or removed since (unknown)\npublished     no record in NAME since "},
			{9, "dead letter   no\n"},
			{4, ": goes to topic NAME, key 42\npublished     NAME, partition "},
			{5, "created at a time that is no date of the years 1 to 9999: goes to topic NAME, key 42\npublished     NAME, partition "},
		} {
			s.says(0, tt.says, "event", eventID(tt.id))
		}
		s.says(0, `"partition": `, "event", eventID(1), "-o", "json")
		s.says(0, "published     no record in NAME\n", "event", "ffffffff-0000-7000-8000-000000000000")
		s.says(2, "0 arguments were given", "event")
	})
}

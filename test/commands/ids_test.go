package commands

import (
	"strings"
	"testing"
)

// The check warns of IDs that two events can have: numbers of two tables, and a column whose values need not differ. A partitioned
// table's unique index holds the partition's column too.
func TestCheckWarnsOfEqualIDs(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		const made = " (id bigint NOT NULL, kind varchar(20), body text, day int NOT NULL"
		s.sql("CREATE TABLE a"+made+", UNIQUE (id))", "CREATE TABLE b"+made+")", "CREATE TABLE c"+made+", UNIQUE (id))")
		if s.mysql == nil {
			s.sql("CREATE TABLE d" + made + ", PRIMARY KEY (id, day)) PARTITION BY RANGE (day)")
		} else {
			s.sql("CREATE TABLE d" + made + ", PRIMARY KEY (id, day)) PARTITION BY RANGE (day) (PARTITION p VALUES LESS THAN MAXVALUE)")
		}
		s.config = `tables:
  - {name: a, columns: {event_id: {template: "o${id}"}, event_type: kind, payload: body}}
  - {name: b, columns: {event_id: {template: "o1${id}"}, event_type: kind, payload: body}}
  - {name: c, columns: {event_id: {template: "p-${id}"}, event_type: kind, payload: body}}
  - {name: d, columns: {event_id: {template: "o-x${id}"}, event_type: kind, payload: body}}
` + s.config
		s.setup()
		r := s.run("check")
		for _, text := range []string{"column id has no unique index", " are numbers that can be the same"} {
			if strings.Count(r.stdout, text) != 1 {
				t.Errorf("want %q once: %s", text, r)
			}
		}
	})
}

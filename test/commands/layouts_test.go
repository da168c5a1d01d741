package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// Five outbox tables as they are, each written and updated as its own software does: every committed INSERT becomes one record, with values
// as a SELECT shows them, and nothing else does. What the rows hold is ours; the tables are those of testdata/layouts.
func TestLayouts(t *testing.T) {
	t.Parallel()
	for name, databases := range map[string]string{"a": "postgres mysql mariadb", "b": "postgres", "c": "postgres", "d": "postgres mysql mariadb", "e": "postgres"} {
		for database := range strings.FieldsSeq(databases) {
			t.Run(name+"/"+database, func(t *testing.T) {
				t.Parallel()
				siteOn(t, database).layout(name)
			})
		}
	}
}

// layout publishes the rows of a table of testdata/layouts, and compares the records.
func (s *site) layout(name string) {
	s.t.Helper()
	script := s.table(name)
	s.replace("partitions: 3", "partitions: 1").setup()
	want := s.relays(script["rows"])
	if n := s.records(s.name); n != want {
		s.t.Errorf("%d records of %d events", n, want)
	}
	var got []string
	for _, r := range s.consume(s.name, want) {
		got = append(got, text(r))
	}
	golden(s.t, filepath.Join("layouts", name+".txt"), strings.ReplaceAll(strings.Join(got, "\n"), s.name, "NAME"))
}

// relays runs a relay while the rows are written, and returns how many events they are.
func (s *site) relays(rows []string) (events int) {
	s.t.Helper()
	relay := s.start()
	url := relay.leading()
	s.sql(rows...)
	events = strings.Count(strings.Join(rows, "\n"), "INSERT INTO")
	s.leavesOut(url, 0, events)
	relay.stops()
	return events
}

func (s *site) file(name string) string {
	s.t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "layouts", name))
	testenv.Must(s.t, err)
	return strings.ReplaceAll(string(content), "NAME", s.name)
}

// table creates a table of testdata/layouts and maps its columns. It returns the statements of its script by what they are for.
func (s *site) table(name string) map[string][]string {
	s.t.Helper()
	dialect := "postgres"
	if s.mysql != nil {
		dialect = "mysql"
	}
	script := map[string][]string{}
	for part := range strings.SplitSeq("schema\n"+s.file(name+"."+dialect+".sql"), "-- ") {
		title, statements, _ := strings.Cut(part, "\n")
		script[title] = strings.Split(strings.TrimSuffix(strings.TrimSpace(statements), ";"), ";\n")
	}
	s.sql(script["schema"]...)
	s.config = s.file(name+".yaml") + s.config
	return script
}

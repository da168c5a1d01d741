package commands

import (
	"strings"
	"testing"
)

// check warns if the daily partitions reach less than 7 days ahead, and schema apply fixes it.
func TestCheckWarnsOfFewPartitions(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		fewPartitions(newSite(t), "public.outbox")
	})
	onMySQL(t, func(s *site) { fewPartitions(s, s.name+".outbox") })
}

func fewPartitions(s *site, table string) {
	s.t.Helper()
	warns := "warn  partitions: daily partitions of " + s.normal(table) + " reach "
	for _, step := range []struct {
		command string
		warned  bool
	}{
		{"schema apply --ahead 3", true},
		{"schema apply --ahead 6", true}, // the last day ends in less than seven
		{"schema apply --ahead 7", false},
	} {
		if r := s.run(strings.Fields(step.command)...); r.code != 0 {
			s.t.Fatalf("%s: %s", step.command, r)
		}
		s.run("setup")
		if r := s.run("check"); r.code != 0 || strings.Contains(r.stdout, warns) != step.warned {
			s.t.Errorf("after %s: %s", step.command, r)
		}
	}
}

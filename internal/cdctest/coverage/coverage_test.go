package coverage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A row without a test is missed on each database and in each mode to which it applies.
func TestMissingRows(t *testing.T) {
	text := strings.Join(Missing([]Declaration{{Rows: []int{1}, Databases: []string{Postgres, MySQL}, Modes: []string{AtLeastOnce}}}), "\n")
	const killed, committed = "row 1 (the relay is killed at random moments, again and again)", "row 3 (killed between Kafka's commit and the save)"
	for want, there := range map[string]bool{
		killed + " has no test on postgres, at-least-once": false, killed + " has no test on postgres, exactly-once": true,
		killed + " has no test on mariadb, at-least-once":     true,
		committed + " has no test on postgres, at-least-once": false, committed + " has no test on postgres, exactly-once": true,
		"row 12 (the slot is dropped, recreated or lost) has no test on mysql": false,
	} {
		if strings.Contains(text, want) != there {
			t.Errorf("%q: want %v in\n%s", want, there, text)
		}
	}
}

// What a test declares counts only if a rig wrote it down, on each database.
func TestUnproven(t *testing.T) {
	t.Setenv(EnvFile, filepath.Join(t.TempDir(), "counted.jsonl"))
	d := Declaration{Test: "TestX", Databases: []string{Postgres, MySQL}, Modes: []string{AtLeastOnce}, Counts: []string{"events"}}
	for _, c := range []Counted{
		{Test: "TestX/postgres/redis", Database: Postgres, Delivery: AtLeastOnce, Kind: "events", Text: "10 committed"},
		{Test: "TestY", Database: MySQL, Delivery: AtLeastOnce, Kind: "events"},
		{Test: "TestX", Database: MySQL, Delivery: AtLeastOnce, Kind: "exit"},
	} {
		if err := c.Append(); err != nil {
			t.Fatal(err)
		}
	}
	counted, err := Read(os.Getenv(EnvFile))
	if err != nil {
		t.Fatal(err)
	}
	if missing := Unproven([]Declaration{d}, counted); len(missing) != 1 || !strings.Contains(missing[0], "events on mysql") {
		t.Errorf("%q", missing)
	}
}

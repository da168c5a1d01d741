package coverage

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func declaredAs(t *testing.T, comment string) ([]Declaration, error) {
	t.Helper()
	dir := t.TempDir()
	text := "package p\n\n// TestX: kills the relay\n// again.\n//\n" + comment + "\nfunc TestX(t *testing.T) {}\n"
	if err := os.WriteFile(filepath.Join(dir, "x_test.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Declared(dir, ".")
}

func TestDeclarations(t *testing.T) {
	found, err := declaredAs(t, "//covers:binlogs 1 7 events exit both\n//covers:postgres 1 rows")
	if err != nil || len(found) != 2 {
		t.Fatalf("%v, %v", found, err)
	}
	d := found[0]
	if d.Test != "TestX" || d.Shows != "Kills the relay again." || !slices.Equal(d.Rows, []int{1, 7}) || !slices.Equal(d.Databases, []string{MySQL, MariaDB}) ||
		!slices.Equal(d.Counts, []string{"events", "exit"}) || !slices.Equal(d.Modes, []string{AtLeastOnce, ExactlyOnce}) {
		t.Errorf("%+v", d)
	}
	if found, err := declaredAs(t, "//covers:all 3 events exactly-once"); err != nil || !slices.Equal(found[0].Modes, []string{ExactlyOnce}) {
		t.Errorf("%+v, %v", found, err)
	}
	for comment, want := range map[string]string{
		"//covers:oracle 1 events": "names no databases", "//covers:all events": "lacks rows", "//covers:all 1": "lacks rows",
		"//covers:all 999 events": "neither a row", "//covers:all 1 miracles": "neither a row",
	} {
		if _, err := declaredAs(t, comment); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", comment, err)
		}
	}
}

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

// Package fails has tests that fail in their first runs and pass later. SUITE_DIR is where they count their runs, SUITE_FAILS how
// many fail, and SUITE_HOW how.
package fails

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if os.Getenv("SUITE_HOW") == "outside" && early("TestMain") {
		fmt.Println("a goroutine is left")
		code = 1
	}
	os.Exit(code)
}

// early reports whether this is one of the first runs.
func early(name string) bool {
	path := filepath.Join(os.Getenv("SUITE_DIR"), name)
	before, _ := os.ReadFile(path)
	if err := os.WriteFile(path, append(before, '.'), 0o600); err != nil {
		panic(err)
	}
	fails, err := strconv.Atoi(os.Getenv("SUITE_FAILS"))
	if err != nil {
		panic(err)
	}
	return len(before) < fails
}

func TestThat(t *testing.T) {
	t.Run("sub", func(t *testing.T) {
		how := os.Getenv("SUITE_HOW")
		if how == "outside" || !early("TestThat") {
			return
		}
		switch how {
		case "late":
			t.Error("the first words")
		case "violation":
			cdctest.Violation(t, cdctest.Lost, "event 7")
		case "property":
			rapid.Check(t, func(t *rapid.T) { t.Error("never") })
		case "race":
			n, done := 0, make(chan bool)
			go func() { n++; close(done) }()
			n++
			<-done
		case "panic":
			panic("at the disco")
		case "limit":
			select {}
		}
	})
}

func TestOther(*testing.T) {}

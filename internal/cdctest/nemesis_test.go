package cdctest_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

func TestSameSeedTakesTheSameActions(t *testing.T) {
	run := func(seed uint64) (done []string) {
		act := func(name string, weight int) cdctest.Action {
			return cdctest.Action{Name: name, Weight: weight, Do: func(_ context.Context, random *rand.Rand) error {
				done = append(done, name+strings.Repeat("'", random.IntN(3)))
				return nil
			}}
		}
		n := cdctest.NewNemesis(seed, act("a", 0), act("b", 1), act("c", 8))
		for range 100 {
			if err := n.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if steps := len(n.Steps()); steps != 100 {
			t.Errorf("%d steps are listed", steps)
		}
		return done
	}
	if !slices.Equal(run(1), run(1)) || slices.Equal(run(1), run(2)) {
		t.Error("two seeds took the same actions")
	}
	count := 0
	for _, name := range run(1) {
		if name[0] == 'c' {
			count++
		}
	}
	if count < 60 || count > 95 {
		t.Errorf("c was drawn %d times of 100, with 8 of 10 weights", count)
	}
}

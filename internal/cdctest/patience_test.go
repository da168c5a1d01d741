package cdctest

import (
	"testing"
	"time"
)

func TestPatienceFollowsTheLoad(t *testing.T) {
	for load, want := range map[float64]float64{0: 1, 0.9: 1, 2.5: 2.5, 20: mostPatience} {
		if got := stretch(load); got != want {
			t.Errorf("a load of %v for each core stretches by %v, want %v", load, got, want)
		}
	}
	if d := Patience(time.Minute); d < time.Minute || d > mostPatience*time.Minute {
		t.Errorf("a minute becomes %s", d)
	}
}

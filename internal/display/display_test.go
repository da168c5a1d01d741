package display_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/display"
)

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1024: "1.0 kB", 1536 << 10: "1.5 MB", 3 << 40: "3.0 TB", 5 << 50: "5120.0 TB"} {
		if got := display.Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// Nothing is told of what is quick. Time left is of what was done since the start.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := display.NewPace(1000, 100)
		for _, tt := range []struct {
			after time.Duration
			done  int64
			want  string
		}{
			{time.Second, 150, ""}, {time.Second, 200, "200 of 1000 (20 %), 16s left"}, {4 * time.Second, 400, ""}, {time.Second, 450, "450 of 1000 (45 %), 11s left"}, {time.Minute, 1001, "1001 so far"},
		} {
			<-time.After(tt.after)
			if got, due := p.Tell(tt.done); got != tt.want || due != (tt.want != "") {
				t.Errorf("%d done: %q", tt.done, got)
			}
		}
	})
}

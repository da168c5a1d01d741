package display_test

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/display"
)

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1024: "1.0 kB", 1536 << 10: "1.5 MB", 3 << 40: "3.0 TB", 5 << 50: "5120.0 TB"} {
		if got := display.Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

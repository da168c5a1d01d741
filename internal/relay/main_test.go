package relay

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain finds what a run leaves behind outside of a bubble; a bubble does not end while anything in it runs.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

package config

import (
	"context"
	"time"
)

// RunCommand runs a command with another time limit.
func RunCommand(ctx context.Context, c Command, timeout time.Duration) (string, error) {
	return c.run(ctx, timeout)
}

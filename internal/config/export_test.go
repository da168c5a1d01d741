package config

import (
	"context"
	"time"
)

// RunCommand runs a command with another time limit.
func RunCommand(ctx context.Context, c Command, timeout time.Duration) (string, error) {
	return c.run(ctx, timeout)
}

// Moved returns the settings that have another name now, or none.
func Moved() (names []string) {
	for _, m := range moves() {
		names = append(names, m.from)
	}
	return names
}

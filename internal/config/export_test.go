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

// Literal returns a secret with the given value.
func Literal(value string) Secret {
	return Secret{reveal: func(context.Context) (string, error) { return value, nil }, shown: hidden}
}

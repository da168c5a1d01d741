package cdctest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pollInterval is how often a condition is checked.
const pollInterval = 20 * time.Millisecond

// Await polls ok until it returns true, fails, or ctx ends. what names the condition in errors.
func Await(ctx context.Context, what string, ok func(ctx context.Context) (bool, error)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		done, err := ok(ctx)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		if done {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, errors.Join(ctx.Err(), err))
		}
	}
}

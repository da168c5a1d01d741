package cdctest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pollInterval is how often a condition is asked for.
const pollInterval = 20 * time.Millisecond

// Await asks ok again and again until it answers yes, fails, or ctx ends. what says in an error what was
// waited for.
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

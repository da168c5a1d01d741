package cdctest

import (
	"context"
	"errors"
	"fmt"
	"testing"
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

// Eventually waits until a condition holds, and ends the test if it does not in time.
func Eventually(tb testing.TB, within time.Duration, what string, holds func() bool) {
	tb.Helper()
	Retry(tb, within, what, func(context.Context) error {
		if !holds() {
			return errors.New("not yet")
		}
		return nil
	})
}

// Retry tries until there is no error, and ends the test with the last one if there is one until the end of the time.
func Retry(tb testing.TB, within time.Duration, what string, try func(ctx context.Context) error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), within)
	defer cancel()
	var last error
	err := Await(ctx, what, func(ctx context.Context) (bool, error) {
		last = try(ctx)
		return last == nil, nil
	})
	if err != nil {
		tb.Fatal(errors.Join(err, last))
	}
}

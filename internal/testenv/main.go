package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
)

// Main runs the tests of a package on what start starts, and returns the exit code of TestMain. dir is for files that all tests share. If start
// fails, stop is not called: the servers end with the process. checks are called once everything has passed and is stopped.
func Main(m *testing.M, start func(ctx context.Context, dir string) error, stop func() error, checks ...func() error) int {
	code, err := runTests(m, start, stop, checks)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

func runTests(m *testing.M, start func(ctx context.Context, dir string) error, stop func() error, checks []func() error) (code int, err error) {
	dir, err := os.MkdirTemp("", "cdc-relay-test-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := start(ctx, dir); err != nil {
		return 1, fmt.Errorf("start servers: %w", err)
	}
	code = m.Run()
	err = stop()
	for _, check := range checks {
		if code == 0 && err == nil {
			err = check()
		}
	}
	return code, err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Exit codes. Those of a [cdc.StopError] are its class.
const (
	exitDone        = 0
	exitRuntime     = int(cdc.ClassRuntime)
	exitUsage       = int(cdc.ClassConfig)
	exitCheckFailed = 3
	exitFenced      = int(cdc.ClassFenced)
)

// errCheckFailed says that the findings already printed hold a failure.
var errCheckFailed = errors.New("check failed")

// usageError is a command line that cannot be understood.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

// usage returns a mistake on the command line, with what to type instead; "" where an error among args has that.
func usage(fix, format string, args ...any) error { return &usageError{fixable(fix, format, args...)} }

func fixable(fix, format string, args ...any) error {
	return &cdc.FixableError{Cause: fmt.Errorf(format, args...), Fix: fix}
}

func exitCode(err error) int {
	var stop *cdc.StopError
	var mistaken *usageError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errCheckFailed):
		return exitCheckFailed
	case errors.As(err, &mistaken):
		return exitUsage
	case errors.As(err, &stop):
		return int(stop.Class)
	case errors.Is(err, cdc.ErrFenced):
		return exitFenced
	default:
		return exitRuntime
	}
}

// complain writes an error as one line, or the faults of a configuration file as one line each.
func complain(w io.Writer, err error) {
	if err == nil || errors.Is(err, errCheckFailed) {
		return
	}
	text := cdc.Explain(err)
	if errors.Is(err, context.Canceled) {
		text = "interrupted"
	}
	for line := range strings.Lines(text) {
		_, _ = fmt.Fprintf(w, "cdc-relay: %s\n", strings.TrimSpace(line))
	}
}

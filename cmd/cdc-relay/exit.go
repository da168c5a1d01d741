package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/display"
)

// Exit codes. For a [cdc.StopError] it is the class.
const (
	exitDone        = 0
	exitRuntime     = int(cdc.ClassRuntime)
	exitCheckFailed = 3
	exitFenced      = int(cdc.ClassFenced)
)

// errCheckFailed means that the findings, which are already printed, have a failure.
var errCheckFailed = errors.New("check failed")

func exitCode(err error) int {
	var stop *cdc.StopError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errCheckFailed):
		return exitCheckFailed
	case errors.As(err, &stop):
		return int(stop.Class)
	case errors.Is(err, cdc.ErrFenced):
		return exitFenced
	default:
		return exitRuntime
	}
}

// printError prints an error on one line, or the problems of a configuration file on one line each. Of an error that only says
// that ctx has ended it prints no details.
func printError(ctx context.Context, w io.Writer, err error) {
	if err == nil || errors.Is(err, errCheckFailed) {
		return
	}
	text := cdc.Explain(err)
	var stop *cdc.StopError
	if errors.Is(err, context.Canceled) && !errors.As(err, &stop) && ctx.Err() != nil {
		text = "interrupted"
	}
	for line := range strings.Lines(text) {
		_, _ = fmt.Fprintf(w, "cdc-relay: %s\n", display.Escaped(strings.TrimSpace(line)))
	}
}

// Command cdc-relay publishes the committed rows of an outbox table to Kafka. `cdc-relay --help` lists
// its commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	_ "time/tzdata" // for tables[].time_zone: the image has no time zone database

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/display"
)

func main() {
	ctx, stop := interruptible(context.Background(), os.Stderr)
	code := execute(ctx, &cli{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: os.LookupEnv}, os.Args[1:])
	stop()
	os.Exit(code)
}

// interruptible returns a context that ends at the first SIGINT or SIGTERM. The second signal ends the process at once.
func interruptible(parent context.Context, stderr io.Writer) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		sig := <-signals
		_, _ = fmt.Fprintf(stderr, "cdc-relay: stopped at once by a second signal (%s)\n", sig)
		os.Exit(exitRuntime)
	}()
	return ctx, cancel
}

// execute runs the command line, prints an error to stderr and returns the exit code.
func execute(ctx context.Context, a *cli, args []string) int {
	root := newRootCommand(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && !a.started {
		err = cdc.Usage("", "%w", err)
	}
	printError(ctx, a.stderr, err)
	return exitCode(err)
}

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

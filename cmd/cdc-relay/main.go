// Command cdc-relay publishes the committed rows of an outbox table to Kafka. `cdc-relay --help` lists
// its commands.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/interrupt"
)

func main() {
	ctx, stop := interruptible(context.Background(), os.Stderr)
	code := execute(ctx, &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: os.LookupEnv}, os.Args[1:])
	stop()
	os.Exit(code)
}

// interruptible returns a context that ends at the first SIGINT or SIGTERM. The second signal ends the process at once.
func interruptible(parent context.Context, stderr io.Writer) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	go func() {
		<-interrupt.Signals()
		cancel()
		sig := <-interrupt.Signals()
		_, _ = fmt.Fprintf(stderr, "cdc-relay: stopped at once by a second signal (%s)\n", sig)
		os.Exit(exitRuntime)
	}()
	return ctx, cancel
}

// execute runs the command line, prints an error to stderr and returns the exit code.
func execute(ctx context.Context, a *app, args []string) int {
	root := newRootCommand(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && !a.started {
		err = cdc.Usage("", "%w", err)
	}
	printError(ctx, a.stderr, err)
	return exitCode(err)
}

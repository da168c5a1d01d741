// Package interrupt receives SIGINT and SIGTERM from as early as a Go program can.
//
// Until a program asks for them, Go's runtime lets these signals end it. The initialization of what cdc-relay imports takes some ten
// milliseconds before main is called. A package is initialized once its imports are, and of several by the order of their paths: this one
// imports os/signal and is next after it, when the process is about one millisecond old. Import nothing else here.
package interrupt

import (
	"os"
	"os/signal"
	"syscall"
)

//nolint:gochecknoglobals // main would ask too late
var signals = received()

func received() <-chan os.Signal {
	c := make(chan os.Signal, 2) // the second one ends the process at once
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM)
	return c
}

// Signals returns the channel that takes them.
func Signals() <-chan os.Signal { return signals }

package config

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Command is a program that prints a secret, and its arguments.
type Command []string

const (
	commandTimeout = 15 * time.Second
	// commandReuse is how long an output serves further connects: a relay opens several connections at once, and a program
	// that takes longer than a caller waits must serve the caller's next attempt.
	commandReuse = 5 * time.Second
	// maxSaid limits the part of standard error in an error.
	maxSaid = 500
)

// command checks the command of a setting, and makes what it prints the setting's secret.
func (d *document) command(c Command, secret *Secret, setting string) {
	path := setting + "_command"
	if len(c) == 0 || d.badBelow(path) {
		return
	}
	if !secret.IsZero() {
		d.report(path, "keep one of them", "is set beside %s", setting)
		return
	}
	if strings.Contains(c[0], "/") {
		absolute, err := filepath.Abs(resolve(d.refs.dir, c[0]))
		if err == nil {
			c[0] = absolute
		}
	}
	if _, err := exec.LookPath(c[0]); err != nil {
		d.report(path, "install it, or correct its name", "names a program that cannot be run (%v)", cdc.LastCause(err))
		return
	}
	*secret = c.secret()
}

// secret returns what the command prints. Callers at the same time share one run, also its failure. It goes on when a caller's time is up, so
// that the next attempt has its output, and ends when a caller is cancelled, as all are when the relay ends.
func (c Command) secret() Secret {
	var (
		running sync.Mutex
		value   string
		failed  error
		at      time.Time
	)
	return Secret{reveal: func(ctx context.Context) (string, error) {
		running.Lock()
		defer running.Unlock()
		if time.Since(at) <= commandReuse {
			return value, failed
		}
		run, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(ctx, func() {
			if errors.Is(ctx.Err(), context.Canceled) {
				cancel()
			}
		})()
		got, err := c.run(run, commandTimeout)
		if run.Err() != nil {
			return "", run.Err()
		}
		value, failed, at = got, err, time.Now()
		return value, failed
	}}
}

// run runs the command, and ends with it what it has started. Its output is in no error.
func (c Command) run(ctx context.Context, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c[0], c[1:]...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second // for what the program started and left behind
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.Output()
	name, value := filepath.Base(c[0]), trimNewline(string(out))
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return "", ctx.Err()
	case ctx.Err() != nil:
		return "", cdc.Fixable("run it as the relay's user to see what it waits for", "%s did not end within %s", name, timeout)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "", cdc.Fixable("run it as the relay's user to see why", "%s failed (%w)%s", name, err, said(stderr.String(), value))
	case value == "":
		return "", cdc.Fixable("let it print the password on standard output", "%s printed nothing%s", name, said(stderr.String(), ""))
	}
	return value, nil
}

// said returns standard error for an error's text, on one line and without the output.
func said(text, out string) string {
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); line != "" {
			text = strings.ReplaceAll(text, line, hidden)
		}
	}
	if text = strings.Join(strings.Fields(text), " "); text == "" {
		return ""
	}
	return fmt.Sprintf(": %.*s", maxSaid, text)
}

package commands

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// running is a relay in the background.
type running struct {
	t    *testing.T
	site *site
	cmd  *exec.Cmd
	done chan struct{} // closed after it was waited for

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed and replaced with every line
}

// start starts `cdc-relay run`.
func (s *site) start() *running {
	s.t.Helper()
	return s.background("run")
}

// background starts a command; it is killed with the test if it still runs.
func (s *site) background(args ...string) *running {
	s.t.Helper()
	return s.inBackground(s.command(args...))
}

func (s *site) inBackground(cmd *exec.Cmd) *running {
	s.t.Helper()
	stderr, err := cmd.StderrPipe()
	testenv.Must(s.t, err)
	testenv.Must(s.t, cmd.Start())
	r := &running{t: s.t, site: s, cmd: cmd, done: make(chan struct{}), more: make(chan struct{})}
	go r.read(stderr)
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-r.done
		if s.t.Failed() {
			s.t.Logf("cdc-relay %s said: %q", cmd.Args[1], r.lines)
		}
	})
	return r
}

func (r *running) read(stderr io.Reader) {
	defer close(r.done)
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		r.mu.Lock()
		r.lines = append(r.lines, lines.Text())
		close(r.more)
		r.more = make(chan struct{})
		r.mu.Unlock()
	}
	_ = r.cmd.Wait() // the tests check the exit code
}

// patience is the time limit of each wait, long enough for a busy machine.
var patience = cdctest.Patience(2 * time.Minute)

// await waits for a line that matches and returns its first group, or the match.
func (r *running) await(pattern string) string {
	r.t.Helper()
	want := regexp.MustCompile(pattern)
	deadline := time.After(patience)
	for {
		found, more := r.find(want)
		if found != nil {
			return found[len(found)-1]
		}
		select {
		case <-more:
		case <-r.done:
			r.t.Fatalf("ended without a line like %s: %q", pattern, r.lines)
		case <-deadline:
			r.t.Fatalf("no line like %s in time: %q", pattern, r.lines)
		}
	}
}

func (r *running) find(want *regexp.Regexp) (found []string, more chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.lines {
		if found := want.FindStringSubmatch(line); found != nil {
			return found, nil
		}
	}
	return nil, r.more
}

// leading waits until the relay leads and returns its HTTP address.
func (r *running) leading() string {
	r.t.Helper()
	r.await("msg=leading")
	return r.serving()
}

// serving returns the relay's HTTP address.
func (r *running) serving() string {
	r.t.Helper()
	return "http://" + r.await(`msg="serving metrics.*address=(\S+)`)
}

// namesLeader waits until the status of a standby names the process that leads.
func (r *running) namesLeader(pattern string) {
	r.t.Helper()
	want := regexp.MustCompile(`(?m)^leader +` + pattern + "$")
	eventually(r.t, func() error {
		if got := r.site.raw("", "status", "--url", r.serving()); !want.MatchString(got.stdout) {
			return fmt.Errorf("want %s: %s", want, got)
		}
		return nil
	})
}

// signal sends a signal and waits until the relay ends.
func (r *running) signal(sig syscall.Signal) int {
	r.t.Helper()
	testenv.Must(r.t, r.cmd.Process.Signal(sig))
	return r.wait()
}

// stops has the relay drain and end, which it must do without an error.
func (r *running) stops() {
	r.t.Helper()
	if code := r.signal(syscall.SIGTERM); code != 0 {
		r.t.Errorf("the relay ended with %d: %q", code, r.lines)
	}
}

func (r *running) wait() int {
	r.t.Helper()
	select {
	case <-r.done:
		return r.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		r.t.Fatal("did not end in time")
		return -1
	}
}

// eventually retries until there is no error.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	cdctest.Retry(t, patience, "what the test expects", func(context.Context) error { return try() })
}

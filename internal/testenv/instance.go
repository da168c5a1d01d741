package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// instance is one server: its directory, ports, guard and, while it runs, process.
type instance struct {
	name  string
	dir   string // removed by close, or by the guard
	owner *account
	guard *guard

	mu     sync.Mutex
	ports  []*port
	proc   *process
	closed bool
}

// process is a running server, the leader of its own process group.
type process struct {
	pid  int
	done chan struct{} // closed after it was waited for
	err  error         // how it ended; read after done
}

// command is what an instance runs, as the owner of its directory.
type command struct {
	path string
	args []string
	env  []string
}

// newInstance creates the directory. signal stops the server at once ("QUIT", "KILL").
func newInstance(ctx context.Context, name, signal string) (*instance, error) {
	owner, err := serverAccount()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(tempDir(), "cdc-relay-"+name+"-")
	if err != nil {
		return nil, err
	}
	guard, err := newGuard(ctx, dir, signal)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	i := &instance{name: name, dir: dir, owner: owner, guard: guard}
	if err := errors.Join(os.Chmod(dir, 0o755), owner.own(dir)); err != nil {
		return nil, errors.Join(err, i.close())
	}
	return i, nil
}

// tempDir returns the parent of server directories: TMPDIR, unless the servers' user cannot enter it.
func tempDir() string {
	dir := os.TempDir()
	if os.Getuid() == 0 && !traversable(dir) {
		return "/tmp"
	}
	return dir
}

func (i *instance) path(elem ...string) string {
	return filepath.Join(append([]string{i.dir}, elem...)...)
}

// write writes a file that only the server may read into the instance's directory.
func (i *instance) write(name, content string) (string, error) {
	path := i.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return "", err
	}
	return path, i.owner.own(path)
}

// start starts the server. The new process waits until the guard knows its process ID, so that it is never left behind
// if this process ends.
func (i *instance) start(ctx context.Context, c command) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return fmt.Errorf("start %s: it was closed", i.name)
	}
	if i.proc != nil && !i.proc.ended() {
		return fmt.Errorf("start %s: it is running already", i.name)
	}
	gateRead, gateWrite, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = gateWrite.Close() }()
	cmd, err := i.spawn(ctx, c, gateRead)
	if err != nil {
		return fmt.Errorf("start %s: %w", i.name, err)
	}
	i.proc = &process{pid: cmd.Process.Pid, done: make(chan struct{})}
	told := i.guard.say("run %d", i.proc.pid)
	go i.proc.wait(cmd, i.guard)
	if told != nil {
		return told
	}
	_, err = gateWrite.WriteString("go\n")
	return err
}

func (i *instance) spawn(ctx context.Context, c command, gate *os.File) (*exec.Cmd, error) {
	defer func() { _ = gate.Close() }()
	log, err := os.OpenFile(i.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	const script = `read -r go <&3 && exec "$@" 3<&-`
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "/bin/sh", append([]string{"-c", script, c.path, c.path}, c.args...)...)
	cmd.ExtraFiles = []*os.File{gate}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = i.dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + i.dir, "LC_ALL=C", "TZ=UTC"}, c.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: i.owner.credential()}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return cmd, nil
}

func (p *process) wait(cmd *exec.Cmd, guard *guard) {
	p.err = cmd.Wait()
	_ = guard.say("ended") // fails only if the guard was released
	close(p.done)
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// run runs a program to completion under the same guard.
func (i *instance) run(ctx context.Context, c command) error {
	if err := i.start(ctx, c); err != nil {
		return err
	}
	proc := i.current()
	select {
	case <-proc.done:
	case <-ctx.Done():
		i.signalGroup(syscall.SIGKILL)
		<-proc.done
		return ctx.Err()
	}
	if proc.err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(c.path), proc.err, i.logTail(10))
	}
	return nil
}

// stop signals the server and waits for it to end. If ctx ends first, it kills the server.
func (i *instance) stop(ctx context.Context, signal syscall.Signal) error {
	return i.stopUntil(ctx.Done(), signal)
}

func (i *instance) stopUntil(deadline <-chan struct{}, signal syscall.Signal) error {
	proc := i.current()
	if proc == nil || proc.ended() {
		return nil
	}
	if err := syscall.Kill(proc.pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop %s: %w", i.name, err)
	}
	select {
	case <-proc.done:
		return nil
	case <-deadline:
		i.signalGroup(syscall.SIGCONT)
		i.signalGroup(syscall.SIGKILL)
		<-proc.done
		return fmt.Errorf("stop %s: killed, because it did not stop in time", i.name)
	}
}

// kill sends SIGKILL and waits for the server to end.
func (i *instance) kill() {
	if proc := i.current(); proc != nil {
		i.signalGroup(syscall.SIGKILL)
		<-proc.done
	}
}

// signalGroup signals the server's process group.
func (i *instance) signalGroup(signal syscall.Signal) {
	if proc := i.current(); proc != nil && !proc.ended() {
		_ = syscall.Kill(-proc.pid, signal) // it may have ended
	}
}

func (i *instance) current() *process {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.proc
}

// pid returns the server's process ID, 0 while it is down.
func (i *instance) pid() int {
	if proc := i.current(); proc != nil && !proc.ended() {
		return proc.pid
	}
	return 0
}

// reserve reserves a port until close.
func (i *instance) reserve(ctx context.Context) (*port, error) {
	reserved, err := reservePort(ctx)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ports = append(i.ports, reserved)
	return reserved, nil
}

// close kills the server, ends the guard and removes the directory. It may be called twice.
func (i *instance) close() error {
	i.kill()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return nil
	}
	i.closed = true
	errs := []error{i.guard.release(), os.RemoveAll(i.dir)}
	for _, p := range i.ports {
		errs = append(errs, p.release())
	}
	return errors.Join(errs...)
}

func (i *instance) logPath() string { return i.path("server.log") }

// logTail returns the server's last log lines.
func (i *instance) logTail(lines int) string {
	text, err := os.ReadFile(i.logPath())
	if err != nil {
		return "no log: " + err.Error()
	}
	return lastLines(string(text), lines)
}

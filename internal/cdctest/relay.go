package cdctest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// Relay runs the shipped binary, one process after another, with one configuration file and one log. Methods that change
// something must not be called concurrently.
type Relay struct {
	bin, dir, listen string
	release          func() error // of the port

	mu     sync.Mutex
	run    *relayRun
	starts int
}

// relayRun is one process.
type relayRun struct {
	cmd     *exec.Cmd
	started time.Time
	logFrom int64 // offset of its part of the log
	done    chan struct{}
	err     error // what Wait returned; read after done
}

// Exit is how a process ended.
type Exit struct {
	// Code is the exit code, -1 after a signal.
	Code int
	// Log is what the process logged.
	Log string
}

// NewRelay writes the configuration file into dir, where the log is too. It sets http.listen.
func NewRelay(bin, dir string, c Config) (*Relay, error) {
	listen, release, err := testenv.ReservePort(context.Background())
	if err != nil {
		return nil, err
	}
	r := &Relay{bin: bin, dir: dir, listen: listen, release: release}
	if err := r.Configure(c); err != nil {
		return nil, err
	}
	return r, nil
}

// Configure replaces the configuration file, which the next Start reads.
func (r *Relay) Configure(c Config) error {
	c = c.clone()
	c.Set("http.listen", r.listen)
	text, err := json.MarshalIndent(c, "", "  ") // JSON is YAML
	if err != nil {
		return err
	}
	return os.WriteFile(r.configPath(), append(text, '\n'), 0o600)
}

func (r *Relay) configPath() string { return filepath.Join(r.dir, "cdc-relay.yaml") }

// LogPath returns the path of the log.
func (r *Relay) LogPath() string { return filepath.Join(r.dir, "relay.log") }

// Start starts a process without waiting until it is ready. The process outlives ctx and dies with this process.
func (r *Relay) Start(ctx context.Context) error { return r.StartCommand(ctx, "run") }

// StartCommand starts another command in the place of run.
func (r *Relay) StartCommand(ctx context.Context, args ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run != nil && !r.run.ended() {
		return errors.New("start relay: it is running already")
	}
	log, err := os.OpenFile(r.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start relay: %w", err)
	}
	defer func() { _ = log.Close() }()
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("start relay: %w", err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), r.bin, append(args, "--config", r.configPath())...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, r.dir
	cmd.SysProcAttr = DieWithParent()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start relay: %w", err)
	}
	run := &relayRun{cmd: cmd, started: time.Now(), logFrom: from, done: make(chan struct{})}
	go func() {
		run.err = cmd.Wait()
		close(run.done)
	}()
	r.run = run
	r.starts++
	return nil
}

// Command runs another command of the relay to completion and returns its output.
func (r *Relay) Command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, r.bin, append(args, "--config", r.configPath())...)
	cmd.Dir = r.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("cdc-relay %s: %w: %s", args[0], err, out)
	}
	return string(out), nil
}

func (run *relayRun) ended() bool {
	select {
	case <-run.done:
		return true
	default:
		return false
	}
}

func (r *Relay) current() *relayRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.run
}

// Running reports whether a process is running.
func (r *Relay) Running() bool {
	run := r.current()
	return run != nil && !run.ended()
}

// Starts returns how many processes were started.
func (r *Relay) Starts() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.starts
}

// started returns when the current or last process was started.
func (r *Relay) started() time.Time {
	if run := r.current(); run != nil {
		return run.started
	}
	return time.Time{}
}

// PID returns the process ID, 0 if no process is running.
func (r *Relay) PID() int {
	if run := r.current(); run != nil && !run.ended() {
		return run.cmd.Process.Pid
	}
	return 0
}

// Signal signals the process.
func (r *Relay) Signal(signal syscall.Signal) error {
	run := r.current()
	if run == nil || run.ended() {
		return errors.New("signal relay: it is not running")
	}
	return run.cmd.Process.Signal(signal)
}

// Kill kills the process (SIGKILL), if it is running, and waits until it has ended.
func (r *Relay) Kill() {
	if run := r.current(); run != nil {
		_ = run.cmd.Process.Kill() // it may have ended
		<-run.done
	}
}

// Close kills the process and releases the port. Further calls do nothing.
func (r *Relay) Close() error {
	r.Kill()
	release := r.release
	r.release = func() error { return nil }
	return release()
}

// Wait waits until the process ends.
func (r *Relay) Wait(ctx context.Context) (Exit, error) {
	run := r.current()
	if run == nil {
		return Exit{}, errors.New("wait for relay: it was never started")
	}
	select {
	case <-run.done:
		return Exit{Code: run.cmd.ProcessState.ExitCode(), Log: r.Log()}, nil
	case <-ctx.Done():
		return Exit{}, fmt.Errorf("wait for relay to end: %w", ctx.Err())
	}
}

// Done is closed when the process has ended.
func (r *Relay) Done() <-chan struct{} {
	if run := r.current(); run != nil {
		return run.done
	}
	done := make(chan struct{})
	close(done)
	return done
}

// Log returns what the current or last process logged.
func (r *Relay) Log() string {
	text, err := os.ReadFile(r.LogPath())
	run := r.current()
	if err != nil || run == nil {
		return ""
	}
	return string(text[min(run.logFrom, int64(len(text))):])
}

// LogTail returns the last lines of the log.
func (r *Relay) LogTail(lines int) string {
	text, err := os.ReadFile(r.LogPath())
	if err != nil {
		return "no log: " + err.Error()
	}
	all := bytes.SplitAfter(text, []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines-1):], nil))
}

// AwaitLog waits until the current process has logged text, and fails if the process ends first.
func (r *Relay) AwaitLog(ctx context.Context, text string) error {
	return Await(ctx, fmt.Sprintf("the relay to log %q", text), func(context.Context) (bool, error) {
		ended := !r.Running()
		if strings.Contains(r.Log(), text) {
			return true, nil
		}
		if ended {
			return false, fmt.Errorf("it ended without logging it: %s", r.LogTail(5))
		}
		return false, nil
	})
}

// AwaitReady waits until /readyz succeeds.
func (r *Relay) AwaitReady(ctx context.Context) error {
	return Await(ctx, "the relay to be ready", func(ctx context.Context) (bool, error) {
		if !r.Running() {
			return false, fmt.Errorf("it ended: %s", r.LogTail(5))
		}
		_, err := r.Get(ctx, "/readyz")
		return err == nil, nil
	})
}

// Get sends a request to the relay's endpoint. A status other than 200 is an error.
func (r *Relay) Get(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.listen+path, http.NoBody)
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s: %s", path, response.Status, body)
	}
	return string(body), nil
}

// Metric returns the sum of a metric's samples whose name and labels start with prefix, as
// `cdc_relay_events_dropped_total{reason="too_large"`; 0 if there is none.
func (r *Relay) Metric(ctx context.Context, prefix string) (float64, error) {
	text, err := r.Get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, prefix) {
			continue
		}
		fields := strings.Fields(line)
		value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %q: %w", line, err)
		}
		sum += value
	}
	return sum, nil
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a running relay.
type process struct {
	cmd     *exec.Cmd
	started time.Time
	log     string
	done    chan struct{}
	err     error
}

// start starts the relay. Of a binlog the position from which it begins is given: earliest or current.
func (s *stand) start(config string, from ...string) (*process, error) {
	return s.startAs(s.bin, config, from...)
}

// startAs starts another build of the relay.
func (s *stand) startAs(bin, config string, from ...string) (*process, error) {
	for _, position := range from {
		if out, err := exec.CommandContext(context.Background(), s.bin, "position", "set", position, "--skip-events", "--config", config).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("set the position: %w: %s", err, out)
		}
	}
	cmd := exec.CommandContext(context.Background(), bin, "run", "--config", config) // ended by stop
	if s.profile != "" {
		cmd.Args = append(cmd.Args, "--pprof")
	}
	return s.run(cmd, strings.TrimSuffix(config, filepath.Ext(config))+".log")
}

// build builds the relay of a commit of this repository.
func (s *stand) build(ctx context.Context, commit string) (bin string, err error) {
	source, err := filepath.Abs(filepath.Join(s.dir, "source-"+commit))
	if err != nil {
		return "", err
	}
	bin = filepath.Join(filepath.Dir(source), "cdc-relay-"+commit)
	do := func(dir string, command ...string) error {
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, bytes.TrimSpace(out))
		}
		return nil
	}
	if err := do(".", "git", "worktree", "add", "--force", "--detach", source, commit); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, do(".", "git", "worktree", "remove", "--force", source)) }()
	return bin, do(source, "go", "build", "-o", bin, "./cmd/cdc-relay")
}

// run starts a command that logs to a file.
func (s *stand) run(cmd *exec.Cmd, log string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	p := &process{cmd: cmd, started: time.Now(), log: log, done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { p.err = cmd.Wait(); close(p.done) }()
	s.relays = append(s.relays, p)
	return p, nil
}

// kill kills the relay if it is still running.
func (p *process) kill() {
	select {
	case <-p.done:
	default:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// stop stops the relay with SIGTERM.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		if p.cmd.ProcessState.ExitCode() == 128+int(syscall.SIGTERM) { // a Java virtual machine ends so
			return nil
		}
		return p.err
	case <-time.After(30 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("relay did not stop within 30 s; its log is %s", p.log)
	}
}

// failed returns the error of a relay that ended unexpectedly.
func (p *process) failed() error {
	select {
	case <-p.done:
		text, _ := os.ReadFile(p.log)
		return fmt.Errorf("relay ended: %s (%w)", bytes.TrimSpace(text), p.err)
	default:
		return nil
	}
}

const userHz = 100 // sysconf(_SC_CLK_TCK) on every Linux that Go runs on

// usage returns the process's CPU time (user and system) and peak resident memory.
func (p *process) usage() (cpu time.Duration, peak int64, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var ticks int64
	for _, f := range fields[11:13] { // utime, stime: proc(5), fields 14 and 15
		v, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, 0, err
		}
		ticks += v
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				return 0, 0, err
			}
			peak = kb << 10
		}
	}
	return time.Duration(ticks) * time.Second / userHz, peak, nil
}

// patience is longer than any scenario takes on a slow machine.
const patience = 10 * time.Minute

// until polls a condition. It fails if the relay or ctx ends.
func (p *process) until(ctx context.Context, every time.Duration, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if err := p.failed(); err != nil {
			return err
		}
		if done, err := ok(); err != nil || done {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

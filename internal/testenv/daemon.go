package testenv

import (
	"context"
	"errors"
	"syscall"
)

// served is what every server is for a test: something with a process and a log.
type served struct{ inst *instance }

// daemon is a server with one port.
type daemon struct {
	served
	port *port
}

// newDaemon creates the directory and reserves the port. signal stops the server at once ("QUIT", "KILL").
func newDaemon(ctx context.Context, name, signal string) (daemon, error) {
	inst, err := newInstance(ctx, name, signal)
	if err != nil {
		return daemon{}, err
	}
	port, err := inst.reserve(ctx)
	if err != nil {
		return daemon{}, errors.Join(err, inst.close())
	}
	return daemon{served{inst}, port}, nil
}

// Addr returns host:port.
func (d daemon) Addr() string { return d.port.addr() }

// PID returns the server's process ID, PostgreSQL's postmaster's, 0 while it is down.
func (s served) PID() int { return s.inst.pid() }

// LogPath returns the path of the server's log.
func (s served) LogPath() string { return s.inst.logPath() }

// LogTail returns the last lines of the server's log.
func (s served) LogTail(lines int) string { return s.inst.logTail(lines) }

// Pause freezes the server and all its processes (SIGSTOP).
func (s served) Pause() error { return s.inst.signalTree(syscall.SIGSTOP) }

// Resume resumes a paused server.
func (s served) Resume() error { return s.inst.signalTree(syscall.SIGCONT) }

// Kill kills the server (SIGKILL).
func (s served) Kill() { s.inst.kill() }

package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// guard is a shell process that outlives this one. It reads a pipe whose write end only this process holds, so the pipe
// is closed however this process ends. The shell then stops the server and removes its directory.
//
//	run PID   a server is about to start in process group PID
//	ended     the server has ended and was waited for
//	done      end without doing anything
type guard struct {
	pipe io.WriteCloser
	cmd  *exec.Cmd
}

// guardScript takes the signal that stops the server at once, and the directory. A server that does not react (it may be
// paused) is killed after ten seconds.
const guardScript = `
pid=
while read -r verb arg; do
	case $verb in
	run) pid=$arg ;;
	ended) pid= ;;
	done) exit 0 ;;
	esac
done
if [ -n "$pid" ]; then
	kill -s "$1" "$pid"
	kill -s CONT "$pid"
	n=0
	while [ $n -lt 100 ] && kill -s 0 "$pid"; do
		sleep 0.1
		n=$((n + 1))
	done
	kill -s KILL -- "-$pid"
fi 2>/dev/null
rm -rf -- "$2"
`

func newGuard(ctx context.Context, dir, signal string) (*guard, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = read.Close() }()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "/bin/sh", "-c", guardScript, "cdc-relay-testenv", signal, dir)
	cmd.Stdin = read
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // signals to this process group or terminal must not reach it
	if err := cmd.Start(); err != nil {
		_ = write.Close()
		return nil, fmt.Errorf("start guard: %w", err)
	}
	return &guard{pipe: write, cmd: cmd}, nil
}

func (g *guard) say(format string, args ...any) error {
	if _, err := fmt.Fprintf(g.pipe, format+"\n", args...); err != nil {
		return fmt.Errorf("tell guard: %w", err)
	}
	return nil
}

// release ends the guard and leaves server and directory alone.
func (g *guard) release() error {
	return errors.Join(g.say("done"), g.pipe.Close(), g.cmd.Wait())
}

package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// awaitReady calls probe until it succeeds, the server ends or ctx ends.
func (i *instance) awaitReady(ctx context.Context, probe func(context.Context) error) error {
	proc := i.current()
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := probe(attempt)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-proc.done:
			return fmt.Errorf("ended before it was ready: %w\n%s", proc.err, i.logTail(20))
		case <-ctx.Done():
			return fmt.Errorf("not ready in time: %w\n%s", errors.Join(ctx.Err(), err), i.logTail(20))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// signalTree signals the server, then its children, also those outside its process group such as PostgreSQL's backends.
func (i *instance) signalTree(signal syscall.Signal) error {
	pid := i.pid()
	if pid == 0 {
		return fmt.Errorf("signal %s: it is not running", i.name)
	}
	if err := syscall.Kill(pid, signal); err != nil {
		return err
	}
	children, err := childrenOf(pid)
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := syscall.Kill(child, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

func childrenOf(parent int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var children []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err == nil && parentOf(pid) == parent {
			children = append(children, pid)
		}
	}
	return children, nil
}

// parentOf reads the fourth field of /proc/PID/stat. The second field may contain spaces and ends with the last ")".
func parentOf(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text[max(0, strings.LastIndexByte(string(text), ')')):]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return parent
}

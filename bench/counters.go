package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// counters count what a relay, its database's server and the machine do from now on.
type counters struct {
	run     *usualRun
	relay   time.Duration
	server  time.Duration
	machine cpuTimes
	began   time.Time
	perf    *exec.Cmd // nil if it is not installed
	counted bytes.Buffer
}

func (u *usualRun) count(ctx context.Context) (*counters, error) {
	c := &counters{run: u}
	var err error
	if c.server, err = usageOfTree(u.server); err != nil {
		return nil, err
	}
	if _, err := exec.LookPath("perf"); err == nil {
		c.perf = exec.CommandContext(ctx, "perf", "stat", "-x", ",", "-e", "raw_syscalls:sys_enter,context-switches", "-p", strconv.Itoa(u.process.cmd.Process.Pid))
		c.perf.Stderr = &c.counted
		if err := c.perf.Start(); err != nil {
			return nil, err
		}
	}
	c.relay, _, err = u.process.usage()
	c.machine, c.began = readCPU(), time.Now()
	return c, err
}

// into divides what was counted by n.
func (c *counters) into(r usualRound, n float64) (usualRound, error) {
	machine, ended := readCPU(), time.Now()
	relay, _, err := c.run.process.usage()
	if err != nil {
		return r, err
	}
	server, err := usageOfTree(c.run.server)
	if err != nil {
		return r, err
	}
	if c.perf != nil {
		_ = c.perf.Process.Signal(os.Interrupt)
		_ = c.perf.Wait() // it ends by the signal
		r.Calls, r.Switches = perfCount(c.counted.String(), "sys_enter")/n, perfCount(c.counted.String(), "context-switches")/n
	}
	r.CPU, r.ServerCPU = float64((relay-c.relay).Microseconds())/n, float64((server-c.server).Microseconds())/n
	r.Steal, r.Busy = machine.stolenSince(c.machine), machine.busySince(c.machine)
	r.Jumped = float64((ended.Round(0).Sub(c.began.Round(0)) - ended.Sub(c.began)).Microseconds()) / 1e3
	return r, nil
}

// perfCount is the value of an event in the output of perf stat -x ,.
func perfCount(output, event string) float64 {
	for line := range strings.Lines(output) {
		if fields := strings.Split(line, ","); len(fields) > 2 && strings.Contains(fields[2], event) {
			v, _ := strconv.ParseFloat(fields[0], 64) // "<not supported>" is 0
			return v
		}
	}
	return 0
}

// usageOfTree is the CPU time of a process, of its children that ended, and of those that run.
func usageOfTree(pid int) (time.Duration, error) {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	var ticks int64
	for _, path := range all {
		stat, err := os.ReadFile(path)
		if err != nil { // it has ended
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		counted := fields[11:13] // utime, stime: proc(5), fields 14 and 15
		switch {
		case path == fmt.Sprintf("/proc/%d/stat", pid):
			counted = fields[11:15] // with those of children that ended
		case fields[1] != strconv.Itoa(pid):
			continue
		}
		for _, f := range counted {
			v, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return 0, err
			}
			ticks += v
		}
	}
	return time.Duration(ticks) * time.Second / userHz, nil
}

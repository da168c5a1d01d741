package cdctest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// DieWithParent makes the kernel kill a process that is started with it when this process ends.
func DieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// PeakMemory returns the process's peak resident memory in bytes (VmHWM of /proc/PID/status).
func (r *Relay) PeakMemory() (int, error) {
	kib, err := procField(fmt.Sprintf("/proc/%d/status", r.PID()), "VmHWM:")
	return kib << 10, err
}

// Writes returns the number of the process's write system calls (syscw of /proc/PID/io).
func (r *Relay) Writes() (int, error) {
	return procField(fmt.Sprintf("/proc/%d/io", r.PID()), "syscw:")
}

func procField(path, name string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			return strconv.Atoi(strings.Fields(value)[0])
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, name)
}

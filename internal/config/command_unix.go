//go:build unix

package config

import (
	"os/exec"
	"syscall"
)

// inGroup gives a command a process group, so that its end also ends what it started.
func inGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

//go:build !linux

package cdctest

import (
	"errors"
	"syscall"
)

func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

var errOnlyLinux = errors.New("only Linux tells") //nolint:gochecknoglobals // a sentinel

// PeakMemory is known on Linux only.
func (r *Relay) PeakMemory() (int, error) { return 0, errOnlyLinux }

// Writes is known on Linux only.
func (r *Relay) Writes() (int, error) { return 0, errOnlyLinux }

//go:build !linux

package cdctest

import (
	"errors"
	"syscall"
)

// DieWithParent has no such effect here.
func DieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

var errOnlyLinux = errors.New("available on Linux only") //nolint:gochecknoglobals // a sentinel

// PeakMemory is available on Linux only.
func (r *Relay) PeakMemory() (int, error) { return 0, errOnlyLinux }

// Writes is available on Linux only.
func (r *Relay) Writes() (int, error) { return 0, errOnlyLinux }

//go:build !linux

package wal

import "syscall"

// limitPatience: other systems have no such option; keep-alives notice a peer that is gone.
func limitPatience(syscall.RawConn) error { return nil }

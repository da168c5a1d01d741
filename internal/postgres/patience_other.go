//go:build !linux

package postgres

import "syscall"

// limitPatience: other systems have no such option; keep-alives notice a peer that is gone.
func limitPatience(syscall.RawConn) error { return nil }

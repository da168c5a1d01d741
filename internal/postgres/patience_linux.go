package postgres

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitPatience has the kernel end the connection when nothing of what we sent was acknowledged for
// networkPatience: a status is sent every few seconds, so a network that swallows packets is noticed then,
// and not after the quarter of an hour that retransmissions take by default. A silent server is no reason:
// one that decodes a large transaction may say nothing for long, but its kernel acknowledges.
func limitPatience(raw syscall.RawConn) error {
	var err error
	if cerr := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(networkPatience.Milliseconds()))
	}); cerr != nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("set TCP_USER_TIMEOUT: %w", err)
	}
	return nil
}

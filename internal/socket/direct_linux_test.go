package socket

import (
	"net"
	"testing"

	"golang.org/x/net/nettest"
)

// A direct connection does what package net's do.
func TestDirect(t *testing.T) {
	nettest.TestConn(t, func() (one, other net.Conn, stop func(), err error) {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, nil, err
		}
		defer l.Close()
		one, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			return nil, nil, nil, err
		}
		if other, err = l.Accept(); err != nil {
			return nil, nil, nil, err
		}
		return newDirect(one), newDirect(other), func() { _, _ = one.Close(), other.Close() }, nil
	})
}

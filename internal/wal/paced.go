package wal

import (
	"context"
	"net"
	"time"
)

// The walsender does one send for each row. A reader asleep in recv is woken by every one of them; a
// reader that lets the socket fill for a moment gets the same bytes in few large pieces, at twice the
// rate and a third of the CPU. So: read at once while little flows, and pause while much does, decided
// by the size of the last read. docs/performance.md has the measurements.
const (
	// pacedRead is the read size from which the stream counts as busy.
	pacedRead = 48 << 10
	// pacedPause is how long the socket may fill after a busy read.
	pacedPause = 10 * time.Millisecond
	// pacedBuffer serves callers with small buffers: the protocol's start, and TLS records of 16 KiB.
	pacedBuffer = 256 << 10
)

// pacedConn reads lazily while much is flowing. It stands below TLS, where the socket's reads are.
// Like any net.Conn's, its Read belongs to one goroutine.
type pacedConn struct {
	net.Conn
	buf      []byte
	pending  []byte // read and not handed out yet; a part of buf
	busy     bool
	lastRead time.Time
}

func (c *pacedConn) Read(p []byte) (int, error) {
	if len(c.pending) > 0 {
		n := copy(p, c.pending)
		c.pending = c.pending[n:]
		return n, nil
	}
	if c.busy {
		<-time.After(pacedPause - time.Since(c.lastRead))
	}
	if len(p) >= pacedRead {
		return c.read(p)
	}
	if c.buf == nil {
		c.buf = make([]byte, pacedBuffer)
	}
	n, err := c.read(c.buf)
	c.pending = c.buf[:n]
	n = copy(p, c.pending)
	c.pending = c.pending[n:]
	return n, err
}

// read marks the stream busy after a large read that still emptied the socket. A read that filled p
// left something behind: the next one need not wait for it.
func (c *pacedConn) read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.busy = n >= pacedRead && n < len(p)
	if c.busy {
		c.lastRead = time.Now()
	}
	return n, err
}

// dialPaced wraps a dial function so that its connections are paced.
func dialPaced(dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &pacedConn{Conn: conn}, nil
	}
}

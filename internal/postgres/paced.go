package postgres

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/socket"
)

// The walsender does one send for each row. A reader asleep in recv is woken by every one of them, and
// what it hands on in small pieces leaves in small requests; a reader that lets the socket fill for a
// moment gets the same bytes in few large pieces, at twice the rate and a third of the CPU. So: read at
// once while little flows, pause for a moment while more does, where the CPU that is saved is worth more to
// the slowest events than the moment costs them, and for longer in a flood. What came last decides. (By the
// size of a single read it cannot be decided: a machine that is short of CPU reads small pieces for ever,
// and stays short of CPU because of it.) docs/maintainers/performance.md has the measurements.
const (
	// pacedSpan is how long the flow is measured.
	pacedSpan = 20 * time.Millisecond
	// pacedFlow is what must come in a span for the stream to count as busy, 1.2 MB/s, and pacedFlood for it
	// to count as a flood, 4.8 MB/s.
	pacedFlow  = 24 << 10
	pacedFlood = 4 * pacedFlow
	// pacedPause and pacedFloodPause are how long the socket may fill then.
	pacedPause      = time.Millisecond
	pacedFloodPause = 10 * time.Millisecond
	// pacedBuffer serves callers with small buffers: the protocol's start, and TLS records of 16 KiB.
	pacedBuffer = 256 << 10
	// pacedDirect is the least buffer of a caller that is read into without a copy.
	pacedDirect = 16 << 10
)

// pacedConn reads lazily while much is flowing. It stands below TLS, where the socket's reads are.
// Like any net.Conn's, its Read belongs to one goroutine.
type pacedConn struct {
	net.Conn

	buf     []byte
	pending []byte // read and not handed out yet; a part of buf

	pause   time.Duration // before a read; 0: none
	emptied bool          // the last read took all that was there
	last    time.Time     // when it did
	span    time.Time     // when the current span began
	flow    int           // bytes since
}

func (c *pacedConn) Read(p []byte) (int, error) {
	if len(c.pending) == 0 && len(p) >= pacedDirect {
		return c.read(p)
	}
	var err error
	if len(c.pending) == 0 {
		if c.buf == nil {
			c.buf = make([]byte, pacedBuffer)
		}
		var n int
		n, err = c.read(c.buf)
		c.pending = c.buf[:n]
	}
	n := copy(p, c.pending)
	c.pending = c.pending[n:]
	return n, err
}

// read pauses first where much flows. A read that filled p left something behind: the next one
// need not wait for it.
func (c *pacedConn) read(p []byte) (int, error) {
	if c.pause > 0 && c.emptied {
		<-time.After(c.pause - time.Since(c.last))
	}
	n, err := c.Conn.Read(p)
	c.last, c.emptied = time.Now(), n < len(p)
	c.flow += n
	if span := c.last.Sub(c.span); span >= pacedSpan {
		c.pause = pauseFor(int64(c.flow) * int64(pacedSpan) / int64(span))
		c.span, c.flow = c.last, 0
	}
	return n, err
}

// pauseFor is the pause at a flow, in bytes in each pacedSpan.
func pauseFor(flow int64) time.Duration {
	switch {
	case flow >= pacedFlood:
		return pacedFloodPause
	case flow >= pacedFlow:
		return pacedPause
	}
	return 0
}

// dialPaced wraps a dial function so that its connections are paced.
func dialPaced(dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if err := patient(conn); err != nil {
			_ = conn.Close()
			return nil, err
		}
		return &pacedConn{Conn: socket.Direct(conn)}, nil
	}
}

// networkPatience is how long the network may swallow what we send. The server's own is walSenderTimeout.
const networkPatience = 20 * time.Second

// patient bounds how long a TCP connection that leads nowhere is believed in.
func patient(conn net.Conn) error {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil // a socket in the file system
	}
	if err := tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: networkPatience / 4, Interval: networkPatience / 4, Count: 3}); err != nil {
		return fmt.Errorf("set TCP keep-alive: %w", err)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return fmt.Errorf("set TCP_USER_TIMEOUT: %w", err)
	}
	return limitPatience(raw)
}

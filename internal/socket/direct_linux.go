package socket

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// newDirect returns conn as it is if it is no TCP connection.
func newDirect(conn net.Conn) net.Conn {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return conn
	}
	raw, err := tcp.SyscallConn()
	if err != nil { // it is closed, as the first read will say
		return conn
	}
	c := &direct{Conn: conn, raw: raw}
	c.in, c.out = newCall(syscall.SYS_READ, raw.Read), newCall(syscall.SYS_WRITE, raw.Write)
	return c
}

// direct is a TCP connection.
type direct struct {
	net.Conn

	raw     syscall.RawConn
	in, out *call
}

// SyscallConn implements [syscall.Conn].
func (c *direct) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }

func (c *direct) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.in.lock.Lock()
	defer c.in.lock.Unlock()
	n, err := c.in.do(p)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, c.explain("read", err)
}

func (c *direct) Write(p []byte) (written int, err error) {
	c.out.lock.Lock()
	defer c.out.lock.Unlock()
	for written < len(p) && err == nil {
		var n int
		n, err = c.out.do(p[written:])
		written += n
	}
	return written, c.explain("write", err)
}

// explain names a failed system call as package net does.
func (c *direct) explain(op string, err error) error {
	if errno, ok := err.(syscall.Errno); ok { //nolint:errorlint // as call.do returns it
		return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError(op, errno)}
	}
	return err
}

// call is a system call with a socket, a buffer and its length.
type call struct {
	number uintptr
	when   func(ready func(fd uintptr) bool) error // waits until the socket is ready, and calls again
	try    func(fd uintptr) bool

	lock sync.Mutex
	buf  []byte
	n    int
	err  syscall.Errno
}

func newCall(number uintptr, when func(func(uintptr) bool) error) *call {
	c := &call{number: number, when: when}
	c.try = c.once // made once: a method value is an allocation
	return c
}

// do is called with c.lock.
func (c *call) do(buf []byte) (int, error) {
	c.buf, c.n, c.err = buf, 0, 0
	err := c.when(c.try)
	c.buf = nil
	if err == nil && c.err != 0 {
		err = c.err
	}
	return c.n, err
}

// once reports whether the call is done: the socket does not block.
func (c *call) once(fd uintptr) bool {
	for {
		n, _, err := syscall.RawSyscall(c.number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(c.buf))), uintptr(len(c.buf))) //nolint:gosec // as package syscall does it
		switch err {
		case 0:
			c.n = int(n)
			return true
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			c.err = err
			return true
		}
	}
}

package testenv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Ports are below the ephemeral range, so that no outgoing connection takes the port of a stopped server.
const (
	firstPort = 20000
	lastPort  = 32000
)

// port is a TCP port of 127.0.0.1 that other users of this package do not take until it is released or this process ends.
type port struct {
	number int
	lock   *os.File
}

// ReservePort returns a free address (host:port) for a program that the caller starts. Other users of this package do not
// take it until release is called or this process ends.
func ReservePort(ctx context.Context) (addr string, release func() error, err error) {
	p, err := reservePort(ctx)
	if err != nil {
		return "", nil, err
	}
	return p.addr(), p.release, nil
}

func reservePort(ctx context.Context) (*port, error) {
	dir := filepath.Join(os.TempDir(), "cdc-relay-ports-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for range 1000 {
		number := firstPort + rand.IntN(lastPort-firstPort)
		lock, err := tryLock(filepath.Join(dir, strconv.Itoa(number)))
		if err != nil {
			return nil, err
		}
		if lock == nil {
			continue
		}
		if free(ctx, number) {
			return &port{number: number, lock: lock}, nil
		}
		_ = lock.Close()
	}
	return nil, errors.New("no free TCP port on 127.0.0.1 between 20000 and 32000")
}

// free does not listen: a process that this one is starting would have the listener for a moment, and the port's user could not.
func free(ctx context.Context, number int) bool {
	return errors.Is(dial(ctx, address(number)), syscall.ECONNREFUSED)
}

// dial reports whether a server accepts connections.
func dial(ctx context.Context, addr string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

func (p *port) release() error { return p.lock.Close() }

func (p *port) addr() string { return address(p.number) }

func address(number int) string { return fmt.Sprintf("127.0.0.1:%d", number) }

package testenv_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// echo answers each line with the same line, and counts those that it gets in lines.
func echo(t *testing.T) (addr string, lines <-chan string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	got := make(chan string, 1000)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for in := bufio.NewScanner(conn); in.Scan(); {
					got <- in.Text()
					_, _ = fmt.Fprintln(conn, in.Text())
				}
			}()
		}
	}()
	return listener.Addr().String(), got
}

func connect(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func say(t *testing.T, conn net.Conn, line string) {
	t.Helper()
	_, err := fmt.Fprintln(conn, line)
	must(t, err)
}

// hear reads a line, for as long as the time limit.
func hear(t *testing.T, conn net.Conn, within time.Duration) (string, error) {
	t.Helper()
	must(t, conn.SetReadDeadline(time.Now().Add(within)))
	line, err := bufio.NewReaderSize(conn, 16).ReadString('\n')
	return strings.TrimSpace(line), err
}

func wantLine(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	if got, err := hear(t, conn, time.Minute); err != nil || got != want {
		t.Fatalf("heard %q, %v; want %q", got, err, want)
	}
}

const shortWhile = 100 * time.Millisecond

func wantSilence(t *testing.T, conn net.Conn) {
	t.Helper()
	var netErr net.Error
	if got, err := hear(t, conn, shortWhile); !errors.As(err, &netErr) || !netErr.Timeout() {
		t.Fatalf("heard %q, %v; want nothing", got, err)
	}
}

func wantClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	must(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	var netErr net.Error
	if _, err := io.Copy(io.Discard, conn); errors.As(err, &netErr) && netErr.Timeout() {
		t.Fatal("the connection is open")
	}
}

// Swallowed data is gone, in its direction only, and Heal closes the connection.
func TestProxySwallows(t *testing.T) {
	t.Parallel()
	addr, lines := echo(t)
	proxy := testenv.Proxy(t, addr)
	conn := connect(t, proxy.Addr())
	say(t, conn, "a")
	wantLine(t, conn, "a")
	<-lines
	must(t, proxy.Swallow(testenv.Responses))
	say(t, conn, "b")
	if got := <-lines; got != "b" {
		t.Fatalf("arrived: %q", got)
	}
	wantSilence(t, conn)
	proxy.Heal(t.Context())
	wantClosed(t, conn)
	again := connect(t, proxy.Addr())
	say(t, again, "c")
	wantLine(t, again, "c")
	<-lines
	must(t, proxy.Swallow(testenv.Requests))
	say(t, again, "d")
	wantSilence(t, again)
	proxy.Heal(t.Context())
	wantClosed(t, again)
	last := connect(t, proxy.Addr())
	say(t, last, "e")
	wantLine(t, last, "e")
	if got := <-lines; got != "e" {
		t.Fatalf("arrived: %q", got)
	}
}

// Delayed data arrives in order, at the latest with Heal, also if its sender has closed the connection.
func TestProxyDelays(t *testing.T) {
	t.Parallel()
	addr, lines := echo(t)
	proxy := testenv.Proxy(t, addr)
	must(t, proxy.Delay(testenv.Responses, shortWhile))
	conn := connect(t, proxy.Addr())
	began := time.Now()
	say(t, conn, "a")
	wantLine(t, conn, "a")
	if took := time.Since(began); took < shortWhile {
		t.Errorf("the answer took %s", took)
	}
	<-lines
	must(t, proxy.Delay(testenv.Requests, time.Hour))
	gone := connect(t, proxy.Addr())
	say(t, gone, "b")
	say(t, gone, "c")
	must(t, gone.Close())
	select {
	case got := <-lines:
		t.Fatalf("arrived: %q", got)
	case <-time.After(shortWhile):
	}
	proxy.Heal(t.Context())
	for _, want := range []string{"b", "c"} {
		if got := <-lines; got != want {
			t.Fatalf("arrived: %q, want %q", got, want)
		}
	}
	say(t, conn, "d")
	wantLine(t, conn, "d")
}

// A cut drops delayed data, and the other end notices that a connection was closed.
func TestProxyCutDropsDelayedData(t *testing.T) {
	t.Parallel()
	addr, lines := echo(t)
	proxy := testenv.Proxy(t, addr)
	must(t, proxy.Delay(testenv.Requests, time.Hour))
	conn := connect(t, proxy.Addr())
	say(t, conn, "a")
	proxy.Cut()
	wantClosed(t, conn)
	other, otherLines := echo(t)
	must(t, proxy.Redirect(other))
	proxy.Heal(t.Context())
	again := connect(t, proxy.Addr())
	say(t, again, "b")
	wantLine(t, again, "b")
	if got := <-otherLines; got != "b" || len(lines) > 0 {
		t.Fatalf("arrived: %q and %d lines at the old target", got, len(lines))
	}
}

// A receiver that reads nothing slows its sender down: the proxy holds little.
func TestProxyKeepsTheReceiversPace(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	proxy := testenv.Proxy(t, listener.Addr().String())
	conn := connect(t, proxy.Addr())
	must(t, conn.SetWriteDeadline(time.Now().Add(time.Second)))
	n, err := conn.Write(make([]byte, 64<<20))
	var netErr net.Error
	if !errors.As(err, &netErr) || !netErr.Timeout() || n > 32<<20 {
		t.Errorf("%d bytes were taken: %v", n, err)
	}
}

// A process that is being started has the closed listener for a moment.
func TestProxyIsRestoredWhileProcessesStart(t *testing.T) {
	t.Parallel()
	addr, _ := echo(t)
	proxy := testenv.Proxy(t, addr)
	ctx, cancel := context.WithCancel(t.Context())
	var starting sync.WaitGroup
	for range 4 {
		starting.Go(func() {
			for ctx.Err() == nil {
				_ = exec.CommandContext(ctx, "true").Run()
			}
		})
	}
	for range 3000 {
		proxy.Cut()
		must(t, proxy.Restore())
	}
	cancel()
	starting.Wait()
}

// A request is held back, and answered after its client has closed the connection. Other connections are not affected.
func TestProxyHoldsARequestBack(t *testing.T) {
	addr, lines := echo(t)
	proxy := testenv.Proxy(t, addr)
	held := proxy.HoldBack(func(data []byte) bool { return strings.HasPrefix(string(data), "late") })
	first, second := connect(t, proxy.Addr()), connect(t, proxy.Addr())
	say(t, first, "early")
	wantLine(t, first, "early")
	say(t, first, "late")
	<-held.Caught()
	must(t, first.Close())
	say(t, second, "between")
	wantLine(t, second, "between")
	must(t, held.Release(t.Context()))
	for _, want := range []string{"early", "between", "late"} {
		if line := <-lines; line != want {
			t.Errorf("the server has got %q, want %q", line, want)
		}
	}
}

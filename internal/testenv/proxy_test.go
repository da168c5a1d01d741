package testenv_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// echo answers each line with the same line, and passes on those that it gets.
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

// hears verifies what comes within a time limit: a line, or "": nothing.
func hears(t *testing.T, conn net.Conn, want string, within time.Duration) {
	t.Helper()
	must(t, conn.SetReadDeadline(time.Now().Add(within)))
	line, err := bufio.NewReaderSize(conn, 16).ReadString('\n')
	var timeout net.Error
	if strings.TrimSpace(line) != want || (err != nil) != (want == "") || err != nil && (!errors.As(err, &timeout) || !timeout.Timeout()) {
		t.Fatalf("heard %q, %v; want %q", line, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const shortWhile = 100 * time.Millisecond

// Swallowed data is gone, in its direction only, and Heal closes the connection. Tests whose relay is killed meanwhile would not notice
// that nothing was swallowed or delayed.
func TestProxySwallows(t *testing.T) {
	t.Parallel()
	addr, lines := echo(t)
	proxy := testenv.Proxy(t, addr)
	want := map[testenv.Direction][]string{testenv.Responses: {"before", "responses"}, testenv.Requests: {"before"}}
	for _, d := range []testenv.Direction{testenv.Responses, testenv.Requests} {
		conn := connect(t, proxy.Addr())
		say(t, conn, "before")
		hears(t, conn, "before", time.Minute)
		must(t, proxy.Swallow(d))
		say(t, conn, string(d))
		arrive(t, lines, want[d]...)
		hears(t, conn, "", shortWhile)
		proxy.Heal(t.Context())
		must(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
		var timeout net.Error
		if _, err := io.Copy(io.Discard, conn); errors.As(err, &timeout) && timeout.Timeout() {
			t.Fatal("the connection is open")
		}
	}
	again := connect(t, proxy.Addr())
	say(t, again, "again")
	hears(t, again, "again", time.Minute)
	arrive(t, lines, "again")
}

func arrive(t *testing.T, lines <-chan string, want ...string) {
	t.Helper()
	for _, line := range want {
		if got := <-lines; got != line {
			t.Fatalf("arrived: %q, want %q", got, line)
		}
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
	hears(t, conn, "a", time.Minute)
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
	hears(t, conn, "d", time.Minute)
}

package admin_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// dial opens a connection and writes text.
func dial(t *testing.T, addr, text string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	testenv.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Slow clients are cut off, and more connections than there may be wait: the next client gets its answer.
func TestSlowClientsAreCutOff(t *testing.T) {
	t.Parallel()
	addr := serve(t, newRelay().options())
	const slow = 300
	conns := make([]net.Conn, slow)
	for i := range conns {
		conns[i] = dial(t, addr, []string{"", "GET /met", "GET /status HTTP/1.1\r\nHost: relay\r\nX-Slow: a"}[i%3])
	}
	if code, _, _ := get(t, "http://"+addr+"/livez"); code != http.StatusOK {
		t.Errorf("livez: %d", code)
	}
	if !slices.ContainsFunc(conns, func(c net.Conn) bool { return closed(c, time.Millisecond) == nil }) {
		t.Error("it was answered before any slow client was cut off: there may be more connections than the limit")
	}
	for i, conn := range conns {
		if err := closed(conn, time.Minute); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
}

// closed waits until the server has closed the connection.
func closed(conn net.Conn, within time.Duration) error {
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
		return fmt.Errorf("not closed: %w", err)
	}
	return nil
}

// A client that sends its body for ever, or reads nothing, is cut off too.
func TestEndlessBodiesAreCutOff(t *testing.T) {
	t.Parallel()
	addr := serve(t, newRelay().options())
	conn := dial(t, addr, "POST /status HTTP/1.1\r\nHost: relay\r\nTransfer-Encoding: chunked\r\n\r\n")
	block := "1000\r\n" + strings.Repeat("a", 0x1000) + "\r\n"
	sent := 0
	for ; sent < 1<<14; sent++ { // 64 MiB
		if _, err := io.WriteString(conn, block); err != nil {
			break
		}
	}
	if sent == 1<<14 {
		t.Error("64 MiB were taken")
	}
}

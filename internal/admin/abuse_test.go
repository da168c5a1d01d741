package admin_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// dial opens a connection and writes text.
func dial(t *testing.T, addr, text string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

// answerTo returns the answer to a request of one connection.
func answerTo(t *testing.T, addr, request string) *http.Response {
	t.Helper()
	conn := dial(t, addr, request)
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	t.Parallel()
	addr := serve(t, newRelay().options())
	request := func(line string, header ...string) string {
		return line + " HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n" + strings.Join(append(header, "\r\n"), "\r\n")
	}
	for name, c := range map[string]struct {
		request string
		want    int
	}{
		"path above the root":      {request("GET /../../etc/passwd"), http.StatusTemporaryRedirect},
		"encoded path":             {request("GET /%2e%2e/%2e%2e/etc/passwd"), http.StatusNotFound},
		"another host in the path": {request("GET //example.com/%2f.."), http.StatusTemporaryRedirect},
		"unknown path":             {request("GET /etc/passwd"), http.StatusNotFound},
		"control character":        {request("GET /\x01"), http.StatusBadRequest},
		"broken escape":            {request("GET /%zz"), http.StatusBadRequest},
		"no path":                  {request("GET"), http.StatusBadRequest},
		"long path":                {request("GET /" + strings.Repeat("a", 40<<10)), http.StatusRequestHeaderFieldsTooLarge},
		"large header":             {request("GET /status", "X: "+strings.Repeat("a", 40<<10)), http.StatusRequestHeaderFieldsTooLarge},
		"many headers":             {request("GET /status", strings.Repeat("X: a\r\n", 20_000)+"Y: b"), http.StatusRequestHeaderFieldsTooLarge},
		"no such method":           {request("BREW /status"), http.StatusMethodNotAllowed},
		"POST":                     {request("POST /status", "Content-Length: 0"), http.StatusMethodNotAllowed},
		"DELETE":                   {request("DELETE /metrics"), http.StatusMethodNotAllowed},
		"TRACE":                    {request("TRACE /livez"), http.StatusMethodNotAllowed},
		"CONNECT":                  {"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n", http.StatusMethodNotAllowed},
		"two lengths":              {request("POST /status", "Content-Length: 1", "Content-Length: 2"), http.StatusBadRequest},
		"length and chunks":        {request("GET /status", "Content-Length: 5", "Transfer-Encoding: chunked"), http.StatusOK},
		"large body":               {request("GET /status", "Content-Length: 99999999999"), http.StatusOK},
		"other protocol":           {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", http.StatusBadRequest},
	} {
		answer := answerTo(t, addr, c.request)
		if answer.StatusCode != c.want {
			t.Errorf("%s: %s, want %d", name, answer.Status, c.want)
		}
		if to := answer.Header.Get("Location"); strings.HasPrefix(to, "//") || strings.Contains(to, "://") {
			t.Errorf("%s: redirected to %s", name, to)
		}
	}
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

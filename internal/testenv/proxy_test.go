package testenv_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// What was delayed arrives in its order once the proxy is healed, also if the client is gone: a late request of a relay that was killed.
func TestProxyDelays(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	proxy := testenv.Proxy(t, l.Addr().String())
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	proxy.Delay(testenv.Requests, time.Hour)
	for _, text := range []string{"a", "b"} {
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	_ = conn.Close()
	_ = server.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := server.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Fatal("it arrived")
	}
	_ = server.SetReadDeadline(time.Time{})
	proxy.Heal(t.Context())
	got := make([]byte, 2)
	if _, err := io.ReadFull(server, got); err != nil || string(got) != "ab" {
		t.Fatalf("%q, %v", got, err)
	}
}

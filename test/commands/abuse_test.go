package commands

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Clients that use up the endpoint's connections and ask without a pause do not keep the relay from publishing, and it answers
// again once they are gone.
func TestAbuseOfTheEndpointDoesNotStopPublishing(t *testing.T) {
	t.Parallel()
	const events = 20
	s := newSite(t).setup()
	relay := s.start()
	url := relay.leading()
	addr := strings.TrimPrefix(url, "http://")
	abuse, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 200 {
		clients.Go(func() { hold(abuse, addr) })
	}
	for _, path := range []string{"/status", "/metrics", "/livez", "/nowhere"} {
		clients.Go(func() { ask(abuse, url+path) })
	}
	for id := range events {
		s.insert(id + 1)
	}
	s.consume(s.name, events)
	stop()
	clients.Wait()
	s.published(url, events)
	relay.stops()
}

// hold keeps a connection with half a request open, again and again.
func hold(ctx context.Context, addr string) {
	for ctx.Err() == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			continue
		}
		over := context.AfterFunc(ctx, func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, "GET /status HTTP/1.1\r\nX-Slow: ")
		_, _ = io.Copy(io.Discard, conn)
		over()
		_ = conn.Close()
	}
}

// ask asks again and again.
func ask(ctx context.Context, url string) {
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(strings.Repeat("x", 1<<20)))
		if strings.HasSuffix(url, "s") && err == nil {
			req, err = http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		}
		if err != nil {
			return
		}
		if answer, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
	}
}

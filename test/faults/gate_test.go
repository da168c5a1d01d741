package faults

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// Requests of Kafka, by their API keys.
const (
	apiInitProducerID = 22
	apiEndTxn         = 26
)

// gate is a proxy in front of the broker's proxied listener that knows Kafka's requests, and stops those of one kind.
type gate struct {
	target string
	wg     sync.WaitGroup
	opened func()

	mu      sync.Mutex
	api     int16         // 0: nothing is stopped
	stopped chan struct{} // closed when the first request is stopped
	open    chan struct{} // closed when requests go on, or are lost
	lost    bool
	conns   []net.Conn
}

// newGate leads the proxied listener through a gate until the test ends.
func newGate(t *testing.T) *gate {
	t.Helper()
	front := shared.kafka.Brokers()[0].Proxy()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{target: front.Target(), opened: func() {}}
	g.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			g.wg.Go(func() { g.serve(c) })
		}
	})
	if err := front.Redirect(l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := front.Redirect(g.target); err != nil {
			t.Error(err)
		}
		_ = l.Close()
		g.mu.Lock()
		for _, c := range g.conns {
			_ = c.Close()
		}
		g.opened()
		g.mu.Unlock()
		g.wg.Wait()
	})
	return g
}

// stop stops requests of a kind from now on, until release or lose.
func (g *gate) stop(api int16) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.api, g.lost, g.stopped, g.open = api, false, make(chan struct{}), make(chan struct{})
	g.opened = sync.OnceFunc(func() { close(g.open) })
}

// await returns once a request was stopped.
func (g *gate) await(r *cdctest.Rig) {
	select {
	case <-g.stopped:
	case <-r.Within(time.Minute).Done():
		r.Must(io.ErrNoProgress)
	}
}

// release lets those requests go on.
func (g *gate) release() { g.end(false) }

// lose drops them, with their connections.
func (g *gate) lose() { g.end(true) }

func (g *gate) end(lost bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.api, g.lost = 0, lost
	g.opened()
}

// pass waits while requests of the kind are stopped, and reports whether they go on.
func (g *gate) pass(api int16) bool {
	g.mu.Lock()
	if api != g.api || api == 0 {
		g.mu.Unlock()
		return true
	}
	open := g.open
	select {
	case <-g.stopped:
	default:
		close(g.stopped)
	}
	g.mu.Unlock()
	<-open
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.lost
}

func (g *gate) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", g.target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	g.mu.Lock()
	g.conns = append(g.conns, client, server)
	g.mu.Unlock()
	g.wg.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	})
	for {
		size := make([]byte, 4)
		if _, err := io.ReadFull(client, size); err != nil {
			return
		}
		request := make([]byte, binary.BigEndian.Uint32(size))
		if _, err := io.ReadFull(client, request); err != nil {
			return
		}
		if !g.pass(int16(binary.BigEndian.Uint16(request))) {
			return
		}
		if _, err := server.Write(slices.Concat(size, request)); err != nil {
			return
		}
	}
}

package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ProxyServer is a TCP proxy in this process that breaks connections on request.
type ProxyServer struct {
	port    *port
	release func() error
	serving sync.WaitGroup

	mu      sync.Mutex
	target  string
	stop    func() // ends the listener and what it has accepted; nil while it is cut
	links   map[*link]struct{}
	faults  map[Direction]fault
	changed chan struct{} // closed and replaced when faults change
	next    *Held         // waits for its data; nil: none does
}

// Direction is the direction of data through a proxy.
type Direction string

// Requests flow to the target, responses from it.
const (
	Requests  Direction = "requests"
	Responses Direction = "responses"
)

// fault is what happens to the data of a direction.
type fault struct {
	swallow bool
	delay   time.Duration
}

// startProxy starts a proxy to target (host:port).
func startProxy(ctx context.Context, target string) (*ProxyServer, error) {
	reserved, err := reservePort(ctx)
	if err != nil {
		return nil, err
	}
	p := &ProxyServer{
		port: reserved, release: sync.OnceValue(reserved.release), target: target,
		links: map[*link]struct{}{}, faults: map[Direction]fault{}, changed: make(chan struct{}),
	}
	if err := p.Restore(); err != nil { //nolint:contextcheck // the proxy outlives ctx
		return nil, errors.Join(err, reserved.release())
	}
	return p, nil
}

// Addr returns the host:port to connect to.
func (p *ProxyServer) Addr() string { return p.port.addr() }

// Cut closes every connection, drops delayed data, and refuses new connections until Restore.
func (p *ProxyServer) Cut() {
	p.mu.Lock()
	if p.stop != nil {
		p.stop()
		p.stop = nil
	}
	p.closeLinks()
	p.mu.Unlock()
	p.serving.Wait()
}

func (p *ProxyServer) closeLinks() {
	for l := range p.links {
		l.close()
	}
}

// Restore accepts connections again after Cut.
func (p *ProxyServer) Restore() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	listener, err := listen(ctx, p.Addr())
	if err != nil {
		cancel()
		return fmt.Errorf("start proxy before %s: %w", p.target, err)
	}
	p.stop = func() {
		cancel()
		_ = listener.Close()
	}
	p.serving.Go(func() { p.accept(ctx, listener) })
	return nil
}

// listen waits while the port is busy: a process that this one is starting has the closed listener until its exec.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	for attempt := 1; ; attempt++ {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
		if attempt == 1000 || !errors.Is(err, syscall.EADDRINUSE) {
			return listener, err
		}
		<-time.After(20 * time.Millisecond)
	}
}

// Redirect closes every connection and directs new ones to another target, like an address that follows the primary.
func (p *ProxyServer) Redirect(target string) error {
	p.Cut()
	p.DirectNew(target)
	return p.Restore()
}

// DirectNew directs new connections to another target; those there are stay.
func (p *ProxyServer) DirectNew(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Swallow drops all data of one direction until Heal; connections stay open.
func (p *ProxyServer) Swallow(d Direction) { p.set(d, fault{swallow: true}) }

// Delay delays the data of one direction until Heal. Data of a connection that its sender has closed still arrives.
func (p *ProxyServer) Delay(d Direction, by time.Duration) { p.set(d, fault{delay: by}) }

func (p *ProxyServer) set(d Direction, f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[d] = f
	p.change()
}

func (p *ProxyServer) change() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Held is a request that HoldBack holds.
type Held struct {
	matches                    func(data []byte) bool
	caught, released, answered chan struct{}
	release, answer            sync.Once
}

// HoldBack holds the first request that matches until Release, with what follows it on its connection, also if the client closes that
// meanwhile. Other connections are not affected, and after the test no request is.
func (p *ProxyServer) HoldBack(tb testing.TB, matches func(data []byte) bool) *Held {
	tb.Helper()
	h := &Held{matches: matches, caught: make(chan struct{}), released: make(chan struct{}), answered: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = h
	tb.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.next == h {
			p.next = nil
		}
	})
	return h
}

// Caught is closed once the request is held.
func (h *Held) Caught() <-chan struct{} { return h.caught }

// Release passes the request on, and returns when the server has answered it, or closed the connection.
func (h *Held) Release(ctx context.Context) error {
	h.release.Do(func() { close(h.released) })
	select {
	case <-h.answered:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// catches returns what holds data that a client has sent; nil: nothing does.
func (p *ProxyServer) catches(data []byte) *Held {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.next
	if h == nil || !h.matches(data) {
		return nil
	}
	p.next = nil
	close(h.caught)
	return h
}

// Heal ends Swallow and Delay: delayed data arrives now. It closes the connections that were open during a Swallow.
func (p *ProxyServer) Heal(context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.faults[Requests].swallow || p.faults[Responses].swallow {
		p.closeLinks()
	}
	clear(p.faults)
	p.change()
}

// Close ends the proxy.
func (p *ProxyServer) Close() error {
	p.Cut()
	return p.release()
}

// fault returns that of a direction, and a channel that is closed when it changes.
func (p *ProxyServer) fault(d Direction) (f fault, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults[d], p.changed
}

func (p *ProxyServer) accept(ctx context.Context, listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // it was cut
		}
		p.serving.Go(func() { p.connect(ctx, client) })
	}
}

// connect serves a client until both directions have ended.
func (p *ProxyServer) connect(ctx context.Context, client net.Conn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", target)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{proxy: p, client: client, server: server, over: make(chan struct{})}
	p.mu.Lock()
	if ctx.Err() != nil { // it was cut meanwhile
		l.close()
	}
	p.links[l] = struct{}{}
	p.mu.Unlock()
	l.run()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// Target is where the proxy leads.
func (p *ProxyServer) Target() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

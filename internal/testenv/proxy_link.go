package testenv

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is a connection through a proxy.
type link struct {
	proxy          *ProxyServer
	client, server net.Conn
	over           chan struct{}
	once           sync.Once
	held           atomic.Pointer[Held] // the request that was held back here
}

// chunk is data that was read at once.
type chunk struct {
	data []byte
	at   time.Time
	done chan struct{} // closed when it was written or dropped
}

// maxDelayed is how many chunks of a direction a Delay holds.
const maxDelayed = 1024

func (l *link) close() {
	l.once.Do(func() {
		close(l.over)
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

func (l *link) run() {
	var directions sync.WaitGroup
	directions.Go(func() { l.pass(Requests, l.client, l.server) })
	directions.Go(func() { l.pass(Responses, l.server, l.client) })
	directions.Wait()
	l.close()
}

// pass moves data of one direction until its sender closes the connection, and then closes it to the receiver, behind all data.
func (l *link) pass(d Direction, from, to net.Conn) {
	chunks := make(chan chunk, maxDelayed)
	var reading sync.WaitGroup
	reading.Go(func() { l.read(d, from, chunks) })
	for c := range chunks {
		var held *Held
		if d == Requests {
			held = l.proxy.catches(c.data)
		}
		l.await(held, func(h *Held) <-chan struct{} { l.held.Store(h); return h.released })
		if l.hold(d, c.at) {
			_, _ = to.Write(c.data) // fails if the receiver is gone
		}
		l.await(held, func(h *Held) <-chan struct{} { return h.answered }) // before the connection is closed, so that the server reads it
		close(c.done)
	}
	_ = to.Close()
	reading.Wait()
}

// await waits for a step of a request that is held back; held may be nil.
func (l *link) await(held *Held, step func(*Held) <-chan struct{}) {
	if held == nil {
		return
	}
	select {
	case <-step(held):
	case <-l.over:
	}
}

// answered notes the answer to a request that was held back.
func (l *link) answered() {
	h := l.held.Load()
	if h == nil {
		return
	}
	select {
	case <-h.released: // else it is the answer to an earlier one
		h.answer.Do(func() { close(h.answered) })
	default:
	}
}

// read reads on while data is delayed. Otherwise the receiver's pace is the sender's.
func (l *link) read(d Direction, from net.Conn, chunks chan<- chunk) {
	defer close(chunks)
	for buffer := make([]byte, 32<<10); ; {
		n, err := from.Read(buffer)
		if d == Responses {
			l.answered()
		}
		if n > 0 {
			c := chunk{append([]byte(nil), buffer[:n]...), time.Now(), make(chan struct{})}
			select {
			case chunks <- c:
			case <-l.over:
				return
			}
			if f, changed := l.proxy.fault(d); f.delay == 0 {
				select {
				case <-c.done:
				case <-changed:
				case <-l.over:
				}
			}
		}
		if err != nil {
			return
		}
	}
}

// hold waits as long as data that was read at a time is delayed, and reports whether it is passed on.
func (l *link) hold(d Direction, at time.Time) bool {
	for {
		f, changed := l.proxy.fault(d)
		wait := f.delay - time.Since(at)
		if f.swallow {
			return false
		}
		if wait <= 0 {
			return true
		}
		select {
		case <-time.After(wait):
		case <-changed:
		case <-l.over:
			return false
		}
	}
}

package publisher_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// counted counts the connections that the other side has not closed.
type counted struct {
	net.Conn
	open *atomic.Int32
	once sync.Once
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.once.Do(func() { c.open.Add(-1) })
	}
	return n, err
}

func TestKillClosesEverything(t *testing.T) {
	var conns atomic.Int32
	c := newCluster(t, 3, 8, wrapping(func(conn net.Conn) net.Conn {
		conns.Add(1)
		return &counted{Conn: conn, open: &conns}
	}))
	s := open(t, options(c))
	for i := range 50 {
		s.send(t, numbered(i*20, 20, 13)...)
	}
	s.await(t, "an answer", func() bool { return len(s.done) > 0 })
	if conns.Load() == 0 {
		t.Fatal("no connection is counted")
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(s.Kill)
	}
	wg.Wait()
	eventually(t, "the last connection to close", func() bool { return conns.Load() == 0 })
	if err := s.Send(t.Context(), &cdc.Routed{Batch: &cdc.Batch{Seq: 99}}); !errors.Is(err, publisher.ErrKilled) {
		t.Errorf("Send says %v after Kill", err)
	}
	if err := s.Open(t.Context(), "cdc-relay.test"); !errors.Is(err, publisher.ErrKilled) {
		t.Errorf("Open says %v after Kill", err)
	}
}

func TestKillDoesNotWaitForBrokers(t *testing.T) {
	c, asked := silentCluster(t, 8)
	opts := options(c)
	opts.Kafka.RequestTimeout = time.Hour
	s := open(t, opts)
	s.send(t, numbered(0, 100, 50)...)
	<-asked
	promptly(t, s.Kill)
}

func TestKillEndsOpen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	testenv.Must(t, err)
	defer l.Close()
	p := unopened(t, optionsAt(l.Addr().String()))
	opened := make(chan error, 1)
	go func() { opened <- p.Open(t.Context(), "cdc-relay.test") }()
	conn, err := l.Accept()
	testenv.Must(t, err)
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	promptly(t, p.Kill)
	if err := <-opened; !errors.Is(err, publisher.ErrKilled) {
		t.Errorf("Open says %v, want ErrKilled", err)
	}
}

func TestKillBeforeOpen(t *testing.T) {
	p := unopened(t, optionsAt("127.0.0.1:1"))
	p.Kill()
	p.Kill()
	if err := p.Open(t.Context(), "cdc-relay.test"); !errors.Is(err, publisher.ErrKilled) {
		t.Errorf("Open says %v, want ErrKilled", err)
	}
}

// Kill does not wait for answers that no relay receives.
func TestKillWithUnreadAnswers(t *testing.T) {
	c := newCluster(t, 1, 8)
	w := watch(c)
	p := unopened(t, options(c))
	mustOpen(t, p)
	const rounds = 500
	for i := range rounds {
		r := &cdc.Routed{Batch: &cdc.Batch{Seq: uint64(2*i + 1)}, Messages: numbered(i, 1, 1)} // gaps: no shared answers
		testenv.Must(t, p.Send(t.Context(), r))
	}
	eventually(t, "all messages at the broker", func() bool {
		n := int32(0)
		for _, b := range w.list() {
			n += b.n
		}
		return n == rounds
	})
	promptly(t, p.Kill)
}

func promptly(t *testing.T, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		fn()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("it takes too long")
	}
}

// A throttled broker is left alone by the loop: sarama would sleep with the connection locked.
func TestKillDoesNotWaitForThrottle(t *testing.T) {
	c := newCluster(t, 2, 1, kfake.SeedTopics(1, "u"))
	for node, topic := range []string{"t", "u"} {
		testenv.Must(t, c.MoveTopicPartition(topic, 0, int32(node)))
	}
	c.ControlKey(produceKey, func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		res := answer(req, 0)
		if res.Topics[0].Topic == "t" {
			res.ThrottleMillis = int32(time.Hour.Milliseconds())
		}
		return res, nil, true
	})
	s := open(t, options(c))
	s.answered(t, s.send(t, msg("k", "a")))
	s.send(t, msg("k", "b"))
	last := s.send(t, to("u", msg("k", "c"))...) // answered after the other would have been on its way
	s.await(t, "the other broker's answer", func() bool { return s.done[last] > 0 })
	promptly(t, s.Kill)
}

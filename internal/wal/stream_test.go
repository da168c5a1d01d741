package wal

import (
	"net"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// While Kafka stalls in a busy database, keepalives must not fill the memory with heartbeats. When everything handed
// on is durable, the next keepalive advances the slot.
func TestNoHeartbeatWhileBatchesAreInFlight(t *testing.T) {
	k := &keeper{most: 1 << 20, full: func() {}}
	ss := fedSession(&feed{}, k)
	walEnd := lsn(0)
	k.takes = func(seq uint64) { // the batch may be durable at once
		if p := ss.src.Progress(seq).Position; p != postgres.FormatLSN(walEnd) {
			t.Errorf("position %s when batch %d is taken, want %s", p, seq, walEnd)
		}
	}
	keepalives := func(n int) {
		for range n {
			walEnd += 0x100
			ss.said.heartbeat = time.Time{} // the interval is over
			if err := ss.keepalive(t.Context(), pglogrepl.PrimaryKeepaliveMessage{ServerWALEnd: walEnd}); err != nil {
				t.Fatal(err)
			}
		}
	}
	keepalives(10)
	if len(k.batches) != 1 {
		t.Fatalf("%d heartbeats in flight, want 1", len(k.batches))
	}
	ss.src.Confirm(1)
	keepalives(10)
	if len(k.batches) != 2 {
		t.Errorf("%d heartbeats after the first was confirmed, want 2", len(k.batches))
	}
	if p := ss.src.Progress(2); p.Position != postgres.FormatLSN(0xb00) {
		t.Errorf("position %s, want that of the first keepalive after the confirmation", p.Position)
	}
	walEnd++
	if err := ss.keepalive(t.Context(), pglogrepl.PrimaryKeepaliveMessage{ServerWALEnd: walEnd, ReplyRequested: true}); err != nil || len(k.batches) != 3 {
		t.Errorf("a keepalive that asks for a reply: %d heartbeats, error %v", len(k.batches), err)
	}
}

// statuses is a connection that keeps the last status.
type statuses struct {
	net.Conn

	last []byte
}

func (c *statuses) Write(b []byte) (int, error) {
	c.last = append([]byte{}, b...)
	return len(b), nil
}

func (c *statuses) SetWriteDeadline(time.Time) error { return nil }

// A server that catches up sends no keepalive by itself: the slot would not move on where no row comes. The answer is not answered.
func TestKeepaliveIsAskedFor(t *testing.T) {
	ss, c, now := fedSession(&feed{}, &releaser{}), new(statuses), time.Now()
	ss.conn, ss.said.at = c, now
	for after, want := range []byte{0, 1, 0} {
		if err := ss.keepalive(t.Context(), pglogrepl.PrimaryKeepaliveMessage{ServerWALEnd: lsn(after + 1)}); err != nil {
			t.Fatal(err)
		}
		if now = now.Add([]time.Duration{replyPause, statusInterval, replyPause}[after]); ss.sayStatus(now) != nil || c.last[len(c.last)-1] != want {
			t.Errorf("status %d asks for a reply: %d, want %d", after, c.last[len(c.last)-1], want)
		}
	}
}

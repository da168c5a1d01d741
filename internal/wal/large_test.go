package wal

import (
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"time"
)

// pieces is a connection that brings what it has in small pieces.
type pieces struct {
	net.Conn

	rest []byte
	most int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.most)], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func (*pieces) SetReadDeadline(time.Time) error { return nil }

// The end of a row that is larger than a chunk may come in small pieces: memory for the row is taken once.
func TestLargeRowInPieces(t *testing.T) {
	const size = 8 << 20
	k := &releaser{}
	ss := fedSession(&feed{}, k)
	ss.conn = &pieces{rest: transactionOf(0, size, outboxID), most: 1000}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := ss.stream(t.Context()); !errors.Is(err, io.EOF) || k.rows != 1 {
		t.Fatalf("%d rows: %v", k.rows, err)
	}
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 2*size {
		t.Errorf("%d bytes were taken for a row of %d", taken, size)
	}
}

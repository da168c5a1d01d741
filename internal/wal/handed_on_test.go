package wal

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// keepaliveAt is a keepalive that asks for nothing.
func keepaliveAt(walEnd uint64) []byte {
	f := binary.BigEndian.AppendUint32([]byte{frameCopyData}, 4+18)
	f = binary.BigEndian.AppendUint64(append(f, copyKeepalive), walEnd)
	return append(f, make([]byte, 9)...)
}

// A transaction of which a part was handed on before the connection was lost goes on behind that part, also when the
// server says on the new connection how far it has come before it sends the transaction again.
func TestKeepaliveBeforePartComesAgain(t *testing.T) {
	const rows = 1000 // at WAL position 1000
	whole := transactionOf(0, rowSize, slices.Repeat([]uint32{outboxID}, rows)...)
	k := &keeper{most: 1 << 30, full: func() {}}
	feed := &feed{transaction: func(int) []byte { return whole[:len(whole)/2] }, most: 1}
	first := fedSession(feed, k)
	if err := first.stream(t.Context()); !errors.Is(err, io.EOF) || k.rows == 0 || k.rows == rows {
		t.Fatalf("%d rows before the connection was lost: %v", k.rows, err)
	}
	feed.transaction = func(n int) []byte {
		return [][]byte{keepaliveAt(500), whole, transactionOf(1, rowSize, outboxID)}[n-1]
	}
	feed.most = 4
	second := newSession(first.src, nil, nil)
	second.conn, second.monitor, second.relations, second.said.at = feed, first.monitor, first.relations, first.said.at
	first.src.Confirm(first.src.handed.Load())
	second.prepare(k)
	if err := second.stream(t.Context()); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if k.rows != rows+1 {
		t.Errorf("%d rows were handed on, want %d", k.rows, rows+1)
	}
	// What was handed on and is not in the checkpoint yet is not of another history.
	feed.transaction, feed.most = func(int) []byte { return transactionOf(1, rowSize, outboxID) }, 5
	third := newSession(first.src, nil, nil)
	third.conn, third.monitor, third.relations, third.said.at = feed, first.monitor, first.relations, first.said.at
	third.startAt = startPoint{from: first.src.handedOn.end, lastEnd: 500}
	third.prepare(k)
	if err := third.stream(t.Context()); !errors.Is(err, io.EOF) || k.rows != rows+1 || first.src.Progress(first.src.handed.Load()).Commit != postgres.FormatLSN(2001) {
		t.Errorf("after %d rows: %v", k.rows, err)
	}
}

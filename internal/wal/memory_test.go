package wal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

const (
	outboxID = 1
	noiseID  = 2
	rowSize  = 300
)

// feed is a replication connection that sends transactions of one row each until it has sent as many as it should.
type feed struct {
	net.Conn

	transaction func(n int) []byte
	most, sent  int
	pending     bytes.Buffer
}

func (f *feed) Read(p []byte) (int, error) {
	for f.pending.Len() < len(p) && f.sent < f.most {
		f.pending.Write(f.transaction(f.sent))
		f.sent++
	}
	return f.pending.Read(p)
}

func (f *feed) SetReadDeadline(time.Time) error { return nil }

// frame wraps a pgoutput message as the walsender does.
func frame(m []byte) []byte {
	f := binary.BigEndian.AppendUint32([]byte{frameCopyData}, uint32(4+xlogHeader+len(m)))
	f = append(f, copyXLogData)
	f = append(f, make([]byte, xlogHeader-1)...)
	return append(f, m...)
}

// transactionOf returns transaction n, with the rows of the tables named by their relation IDs.
func transactionOf(n, size int, tables ...uint32) []byte {
	at := uint64(n+1) * 1000
	begin := binary.BigEndian.AppendUint64([]byte{msgBegin}, at)
	out := frame(append(begin, make([]byte, 12)...))
	for _, id := range tables {
		out = append(out, frame(encodeInsert(id, 'b', [][]byte{make([]byte, 16), []byte("key"), make([]byte, size)}))...)
	}
	commit := binary.BigEndian.AppendUint64([]byte{msgCommit, 0}, at)
	commit = binary.BigEndian.AppendUint64(commit, at+1)
	return append(out, frame(append(commit, make([]byte, 8)...))...)
}

// fedSession reads from f what public.outbox and public.noise bring.
func fedSession(f *feed, out cdc.Queue) *session {
	s := New(Options{Options: postgres.Options{Tables: []string{"public.outbox"}}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	ss := newSession(s, nil, nil)
	ss.conn, ss.monitor = f, &monitor{ss: ss, failed: make(chan error, 1)}
	ss.prepare(out)
	ss.said.at = time.Now().Add(time.Hour) // a feed takes no status updates
	for id, name := range map[uint32]string{outboxID: "outbox", noiseID: "noise"} {
		m := encodeRelation(id, "public", name, []string{"id", "key", "payload"}, []uint32{pgtype.UUIDOID, pgtype.TextOID, pgtype.ByteaOID})
		if err := ss.relation(context.Background(), m); err != nil {
			panic(err)
		}
	}
	s.opts.Verify = func(*cdc.Table) error { return errors.New("lacks the columns of an outbox") }
	return ss
}

// keeper holds what it takes, up to a bound, and ends the attempt then.
type keeper struct {
	cdc.Queue

	most, bytes, rows int
	batches           []*cdc.Batch
	full              context.CancelFunc
	takes             func(seq uint64) // nil: nobody asks
}

func (k *keeper) Offer(b *cdc.Batch) bool {
	if k.bytes+b.Bytes > k.most {
		k.full()
		return false
	}
	k.bytes += b.Bytes
	k.rows += b.Rows()
	k.batches = append(k.batches, b)
	if k.takes != nil {
		k.takes(b.Seq)
	}
	return true
}

func (k *keeper) Space() <-chan struct{} { return nil }

// What the batches in a full window keep in memory is what they are charged for, also where most of the stream is
// of other tables.
func TestMemoryIsBoundedBesideOtherTables(t *testing.T) {
	const bound = 4 << 20
	other := slices.Repeat([]uint32{noiseID}, 1000)
	for name, transaction := range map[string]func(n int) []byte{
		"one row in a thousand": func(n int) []byte { return transactionOf(n, rowSize, append(other, outboxID)...) },
		"bursts, then others": func(n int) []byte {
			return transactionOf(n, rowSize, append(slices.Repeat([]uint32{outboxID}, 256), other...)...)
		},
		"rows only of the outbox": func(n int) []byte { return transactionOf(n, rowSize, outboxID) },
		"large rows":              func(n int) []byte { return transactionOf(n, 300_000, noiseID, outboxID, noiseID) },
		"a small row behind each large one": func(n int) []byte {
			return append(transactionOf(2*n, 300_000, noiseID), transactionOf(2*n+1, rowSize, outboxID)...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			k := &keeper{most: bound, full: cancel}
			f := &feed{transaction: transaction, most: 1000}
			ss := fedSession(f, k)
			before := cdctest.Heap()
			err := ss.stream(ctx)
			if !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			f.pending = bytes.Buffer{}
			held := cdctest.Heap() - before
			if noise := ss.relations[noiseID]; noise.other && noise.table.Columns != nil {
				t.Errorf("kept %d columns of another table", len(noise.table.Columns))
			}
			t.Logf("%d rows in %d batches are charged %d bytes and hold %d: %v", k.rows, len(k.batches), k.bytes, held, err)
			if held > bound+4*chunkSize { // what is being read, and what is kept for reuse
				t.Errorf("a bound of %d bytes holds %d", bound, held)
			}
			runtime.KeepAlive(k)
			runtime.KeepAlive(ss)
		})
	}
}

// Rows that were copied out of the chunk they were read into are what they were.
func TestCopiedRows(t *testing.T) {
	k := &keeper{most: 1 << 30, full: func() {}}
	transaction := func(n int) []byte {
		at := encodeInsert(outboxID, 'b', [][]byte{fmt.Appendf(nil, "%016d", n), nil, {}})
		begin := binary.BigEndian.AppendUint64([]byte{msgBegin}, uint64(n+1))
		out := append(frame(append(begin, make([]byte, 12)...)), frame(at)...)
		return append(out, frame(append([]byte{msgCommit}, make([]byte, 25)...))...)
	}
	ss := fedSession(&feed{transaction: transaction, most: 5000}, k)
	if err := ss.stream(t.Context()); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	n := 0
	for _, b := range k.batches {
		for row := range b.Rows() {
			id, _ := b.Value(row, 0)
			key, notNull := b.Value(row, 1)
			payload, isThere := b.Value(row, 2)
			if string(id) != fmt.Sprintf("%016d", n) || notNull || !isThere || len(key)+len(payload) > 0 {
				t.Fatalf("row %d is %q, %q, %q", n, id, key, payload)
			}
			n++
		}
	}
	if n != 5000 {
		t.Errorf("%d rows, want 5000", n)
	}
}

// releaser is a window that never fills.
type releaser struct{ rows int }

func (r *releaser) Offer(b *cdc.Batch) bool {
	r.rows += b.Rows()
	b.Release()
	return true
}

func (*releaser) Space() <-chan struct{} { return nil }

package wal

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// resumed is a session that starts at the position of an earlier run.
func resumed(t *testing.T, f *feed, k *keeper, p cdc.Progress) *session {
	t.Helper()
	ss := fedSession(f, k)
	var err error
	if ss.src.handedOn, err = handedOnBefore(cdc.Checkpoint{Progress: p}, ss.src.opts.Tables); err != nil {
		t.Fatal(err)
	}
	if ss.startAt.from, err = postgres.ParseLSN(p.Position); err != nil {
		t.Fatal(err)
	}
	ss.prepare(k)
	return ss
}

func feedOf(pieces ...[]byte) *feed {
	return &feed{transaction: func(n int) []byte { return pieces[n] }, most: len(pieces)}
}

// A run that starts within a transaction hands on exactly the rows that the position does not count, or says why it cannot.
func TestStartWithinATransaction(t *testing.T) {
	rows := func(n int) []uint32 { return slices.Repeat([]uint32{outboxID}, n) }
	ten := transactionOf(0, rowSize, rows(10)...) // its commit is at 1000
	for name, tt := range map[string]struct {
		part   string
		rows   uint32
		feed   [][]byte
		want   int // rows that are handed on
		refuse bool
	}{
		"some rows":                    {"00000000000003E8/0", 3, [][]byte{ten, transactionOf(1, rowSize, outboxID)}, 8, false},
		"all rows":                     {"00000000000003E8/0", 10, [][]byte{ten, transactionOf(1, rowSize, outboxID)}, 1, false},
		"rows of other tables":         {"00000000000003E8/0", 1, [][]byte{transactionOf(0, rowSize, noiseID, outboxID, noiseID, outboxID)}, 1, false},
		"a transaction before it":      {"00000000000007D0/0", 3, [][]byte{ten, transactionOf(1, rowSize, rows(5)...)}, 12, false},
		"fewer rows":                   {"00000000000003E8/0", 11, [][]byte{ten}, 0, true},
		"another transaction there":    {"00000000000003E8/7", 3, [][]byte{ten}, 0, true},
		"a later transaction":          {"00000000000001F4/0", 3, [][]byte{ten}, 0, true},
		"a keepalive behind it":        {"00000000000003E8/0", 3, [][]byte{keepaliveAt(1500)}, 0, true},
		"a keepalive before it, first": {"00000000000003E8/0", 3, [][]byte{keepaliveAt(500), ten}, 7, false},
	} {
		t.Run(name, func(t *testing.T) {
			k := &keeper{most: 1 << 30, full: func() {}}
			p := cdc.Progress{Position: postgres.FormatLSN(100), Part: cdc.Part{TxID: tt.part, Rows: tt.rows, Tables: "public.outbox"}}
			err := resumed(t, feedOf(tt.feed...), k, p).stream(t.Context())
			stop, refused := errors.AsType[*cdc.StopError](err)
			if refused != tt.refuse || refused && stop.Reason != "other_history" || !refused && !errors.Is(err, io.EOF) {
				t.Errorf("%v", err)
			}
			if k.rows != tt.want {
				t.Errorf("%d rows were handed on, want %d", k.rows, tt.want)
			}
		})
	}
}

// Whatever batch of a large transaction was the last durable one: a start from its position hands on the rest.
func TestPositionsWithinATransaction(t *testing.T) {
	const rows = 1000
	whole := transactionOf(0, rowSize, slices.Repeat([]uint32{outboxID}, rows)...)
	k := &keeper{most: 1 << 30, full: func() {}}
	first := fedSession(feedOf(whole), k)
	if err := first.stream(t.Context()); !errors.Is(err, io.EOF) || len(k.batches) < 3 {
		t.Fatalf("%d batches: %v", len(k.batches), err)
	}
	durable, within := 0, 0
	for _, b := range k.batches {
		durable += b.Rows()
		p := first.src.Progress(b.Seq)
		if p.Part.Rows > 0 {
			within++
		}
		rest := &keeper{most: 1 << 30, full: func() {}}
		if err := resumed(t, feedOf(whole), rest, p).stream(t.Context()); !errors.Is(err, io.EOF) || durable+rest.rows != rows {
			t.Errorf("behind %d rows %d are handed on, of %d: %v", durable, rest.rows, rows, err)
		}
	}
	if within == 0 {
		t.Error("no position is within the transaction")
	}
	next := &keeper{most: 1 << 30, full: func() {}} // a commit may begin where the one before it ends
	if err := resumed(t, feedOf(whole), next, cdc.Progress{Position: postgres.FormatLSN(1000)}).stream(t.Context()); !errors.Is(err, io.EOF) || next.rows != rows {
		t.Errorf("behind the end of the transaction before it %d rows are handed on, of %d: %v", next.rows, rows, err)
	}
}

// Who goes past a transaction that the server cannot send goes past those that came with it, too: they are not handed on.
func TestRepairBeginsWithWhatIsPending(t *testing.T) {
	ss := fedSession(&feed{}, nil)
	ss.tx = transaction{open: true, micros: 3600e6, commit: 2}
	ss.batch = ss.src.arenas.batch(nil, nil)
	ss.batch.Txs = append(ss.batch.Txs, cdc.Tx{Time: 60e6})
	err := ss.unsent(errors.New("invalid memory alloc request size"))
	if u, ok := errors.AsType[*cdc.UnsentError](err); !ok || !strings.Contains(u.Past, "--since 1970-01-01T00:01:00Z") {
		t.Errorf("%+v", err)
	}
}

// The rows that the position counts are those of some tables.
func TestTablesChangedWithinATransaction(t *testing.T) {
	s := fedSession(&feed{}, nil).src
	_, err := handedOnBefore(cdc.Checkpoint{Progress: cdc.Progress{Part: cdc.Part{TxID: "00000000000003E8/0", Rows: 3, Tables: "public.other,public.outbox"}}}, s.opts.Tables)
	if stop, ok := errors.AsType[*cdc.StopError](err); !ok || stop.Reason != "tables_changed" {
		t.Errorf("%v", err)
	}
}

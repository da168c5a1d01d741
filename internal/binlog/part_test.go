package binlog

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// transactionOf is transaction 0-1-number with rows of d.outbox.
func transactionOf(number byte, rows int) []event {
	id := eventOf(replication.MARIADB_GTID_EVENT, 0, string([]byte{number, 7: 0})+"\x00\x00\x00\x00\x00")
	binary.LittleEndian.PutUint32(id.raw[5:], 1)
	return []event{id, mapEvent(), rowEvent(strings.Repeat(goodRow, rows)), eventOf(replication.XID_EVENT, 0, "12345678")}
}

// sizes is a queue that keeps how many rows each batch has.
type sizes struct {
	cdc.Queue

	rows []int
}

func (q *sizes) Offer(b *cdc.Batch) bool {
	q.rows = append(q.rows, b.Rows())
	return true
}

// resumed reads transactions from the position of an earlier run on.
func resumed(t *testing.T, q cdc.Queue, p cdc.Progress, transactions ...[]event) (*Source, error) {
	t.Helper()
	s := New(Options{Options: mysql.Options{Tables: []string{"d.outbox"}}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	var err error
	if s.next.part, err = s.partBefore(cdc.Checkpoint{Progress: p}); err != nil {
		return s, err
	}
	ss := sessionAt(t, s, q)
	for _, events := range transactions {
		for _, e := range events {
			if err := ss.take(t.Context(), e); err != nil {
				return s, err
			}
		}
	}
	return s, ss.flush(t.Context())
}

// A run that starts within a transaction hands on exactly the rows that the position does not count, or says why it cannot.
func TestStartWithinATransaction(t *testing.T) {
	for name, tt := range map[string]struct {
		part         cdc.Part
		transactions [][]event
		want         int // rows that are handed on
		refuse       string
	}{
		"some rows":                      {cdc.Part{TxID: "0-1-2", Rows: 3, Tables: "d.outbox"}, [][]event{transactionOf(2, 10), transactionOf(3, 1)}, 8, ""},
		"all rows":                       {cdc.Part{TxID: "0-1-2", Rows: 10, Tables: "d.outbox"}, [][]event{transactionOf(2, 10), transactionOf(3, 1)}, 1, ""},
		"a transaction before it":        {cdc.Part{TxID: "0-1-3", Rows: 3, Tables: "d.outbox"}, [][]event{transactionOf(2, 10), transactionOf(3, 5)}, 12, ""},
		"fewer rows":                     {cdc.Part{TxID: "0-1-2", Rows: 11, Tables: "d.outbox"}, [][]event{transactionOf(2, 10)}, 0, "other_history"},
		"a large transaction before it":  {cdc.Part{TxID: "0-1-3", Rows: 3, Tables: "d.outbox"}, [][]event{transactionOf(2, 2*batchRows+1)}, 0, "other_order"},
		"other tables":                   {cdc.Part{TxID: "0-1-2", Rows: 3, Tables: "d.other,d.outbox"}, nil, 0, "tables_changed"},
		"the next ones are handed whole": {cdc.Part{TxID: "0-1-2", Rows: 1, Tables: "d.outbox"}, [][]event{transactionOf(2, 2), transactionOf(3, 4), transactionOf(4, 4)}, 9, ""},
	} {
		t.Run(name, func(t *testing.T) {
			q := &rowCount{}
			s, err := resumed(t, q, cdc.Progress{Position: "0-1-1", Part: tt.part}, tt.transactions...)
			if cdc.ReasonOf(err) != tt.refuse || (err != nil) != (tt.refuse != "") || err != nil && !strings.Contains(cdc.Fix(err), "`cdc-relay position ") {
				t.Errorf("%v", err)
			}
			if part := s.Progress(s.handed.Load()).Part; q.rows != tt.want || err == nil && part != (cdc.Part{}) {
				t.Errorf("%d rows were handed on, want %d, and of the next transaction %+v", q.rows, tt.want, part)
			}
		})
	}
}

// Skipping what was published of a huge transaction takes minutes: it keeps the relay alive, and ends with the run.
func TestSkippingIsAliveAndEnds(t *testing.T) {
	s, _ := resumed(t, &rowCount{}, cdc.Progress{}, transactionOf(2, 10)[:3])
	ss := sessionAt(t, s, nil)
	ss.tx.skip = 10
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ss.emitHeld(ctx); !errors.Is(err, context.Canceled) || s.lastTick.Load() == 0 {
		t.Errorf("%v, last alive at %d", err, s.lastTick.Load())
	}
}

// Whatever batch of a large transaction was the last durable one: a start from its position hands on the rest.
func TestPositionsWithinATransaction(t *testing.T) {
	const rows = 3*batchRows + 5
	q := &sizes{}
	s, err := resumed(t, q, cdc.Progress{}, transactionOf(2, rows))
	if err != nil || len(q.rows) < 3 {
		t.Fatalf("%d batches: %v", len(q.rows), err)
	}
	durable, within := 0, 0
	for i, n := range q.rows {
		durable += n
		p := s.Progress(uint64(i + 1))
		if p.Part.Rows > 0 {
			within++
		}
		rest := &rowCount{}
		transactions := [][]event{transactionOf(2, rows)}
		if p.Position != "0-1-1" {
			transactions = nil
		}
		if _, err := resumed(t, rest, p, transactions...); err != nil || durable+rest.rows != rows {
			t.Errorf("behind %d rows (%+v) %d are handed on, of %d: %v", durable, p, rest.rows, rows, err)
		}
	}
	if within == 0 {
		t.Error("no position is within the transaction")
	}
}

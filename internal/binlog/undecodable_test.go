package binlog

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// rowCount is a queue that counts rows.
type rowCount struct{ rows int }

func (q *rowCount) Offer(b *cdc.Batch) bool {
	q.rows += b.Rows()
	return true
}

func (q *rowCount) Space() <-chan struct{} { return nil }

// sessionAt returns a session of MariaDB behind 0-1-1 that has read the format of the binlog file.
func sessionAt(tb testing.TB, s *Source, q cdc.Queue) *session {
	tb.Helper()
	if s.received == nil {
		s.flavor = cdc.MariaDB
		from, err := mysql.ParseSet(cdc.MariaDB, "0-1-1")
		testenv.Must(tb, err)
		s.received = from
		s.positions.start(from, mark{})
	}
	ss := newSession(s, newDump(nil, "", &dialer{flavor: s.flavor}))
	ss.out = q
	testenv.Must(tb, ss.format(formatEvent()))
	return ss
}

// formatEvent describes a binlog without checksums.
func formatEvent() event {
	version := "\x04\x00" + "8.4.0" + strings.Repeat("\x00", 49) + "\x13"
	return eventOf(replication.FORMAT_DESCRIPTION_EVENT, 0, version+strings.Repeat("\x0a", 41)+"\x00....")
}

// The table map and rows of d.outbox (n INT). A bad row is cut off in its column.
func mapEvent() event {
	return eventOf(replication.TABLE_MAP_EVENT, 0, "\x01\x00\x00\x00\x00\x00\x01\x00\x01d\x00\x06outbox\x00\x01\x03\x00\x01\x04\x02\x01n")
}

func rowEvent(row string) event {
	return eventOf(replication.WRITE_ROWS_EVENTv2, 0, "\x01\x00\x00\x00\x00\x00\x01\x00\x02\x00\x01\xff"+row)
}

func xidEvent() event { return eventOf(replication.XID_EVENT, 0, "12345678") }

const goodRow, badRow = "\x00\x07\x00\x00\x00", "\x00\x07\x00"

// takeAll takes the events of transaction 0-1-2 as Run does.
func (ss *session) takeAll(t *testing.T, events ...event) error {
	t.Helper()
	ss.tx = transaction{open: true, begun: true, id: mysql.GTID{Server: 1, Number: 2}}
	for _, e := range events {
		if err := ss.take(t.Context(), e); err != nil {
			err = ss.located(t.Context(), err)
			testenv.Must(t, ss.flush(t.Context()))
			ss.src.held.reset()
			return err
		}
	}
	return ss.flush(t.Context())
}

//covers:binlogs 27 messages both
func TestRowThatCannotBeDecodedStops(t *testing.T) {
	s := New(Options{Options: mysql.Options{Tables: []string{"d.outbox"}}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	q := &rowCount{}
	ss := sessionAt(t, s, q)
	ss.tx = transaction{open: true, begun: true, id: mysql.GTID{Server: 1, Number: 1}}
	for _, e := range []event{mapEvent(), rowEvent(goodRow), eventOf(replication.XID_EVENT, 0, "12345678")} { // waits in the same batch
		testenv.Must(t, ss.take(t.Context(), e))
	}
	err := ss.takeAll(t, mapEvent(), rowEvent(goodRow), rowEvent(goodRow+badRow), eventOf(replication.XID_EVENT, 0, "12345678"))
	stop, ok := errors.AsType[*cdc.StopError](err)
	if !ok || stop.Reason != "row_unreadable" || stop.Class != cdc.ClassRuntime {
		t.Fatalf("%v, want row_unreadable", err)
	}
	if want := "transaction 0-1-2: decode column n of d.outbox: "; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%q does not begin with %q", err, want)
	}
	if want := "`cdc-relay position set 0-1-2 --skip-events`"; !strings.HasSuffix(stop.Fix, want) {
		t.Errorf("fix %q does not end in %s", stop.Fix, want)
	}
	if q.rows != 1 {
		t.Errorf("%d rows were handed on, want only the one of the transaction before", q.rows)
	}
	if s.received.String() != "0-1-1" {
		t.Errorf("position is %s, want 0-1-1", s.received)
	}
}

// Batches of a large transaction are handed on before its last row is decoded.
func TestUndecodableRowOfALargeTransactionIsNotTriedAgain(t *testing.T) {
	s := New(Options{Options: mysql.Options{Tables: []string{"d.outbox"}}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	q := &rowCount{}
	ss := sessionAt(t, s, q)
	err := ss.takeAll(t, mapEvent(), rowEvent(strings.Repeat(goodRow, 3*batchRows)+badRow), eventOf(replication.XID_EVENT, 0, "12345678"))
	if stop, ok := errors.AsType[*cdc.StopError](err); !ok || stop.Reason != "row_unreadable" {
		t.Fatalf("%v, want row_unreadable", err)
	}
	if q.rows%batchRows != 0 || q.rows > 3*batchRows {
		t.Errorf("%d rows were handed on, want whole batches", q.rows)
	}
}

// The network may have damaged an event, so it is read again, once.
func TestDamagedEventIsReadAgainOnce(t *testing.T) {
	for name, damaged := range map[string]event{
		"table map":         eventOf(replication.TABLE_MAP_EVENT, 0, "\x01\x00\x00\x00\x00\x00\x01\x00\x05d"),
		"compressed events": eventOf(replication.TRANSACTION_PAYLOAD_EVENT, 0, "\x02\x01"),
		"LOAD DATA":         eventOf(replication.EXECUTE_LOAD_QUERY_EVENT, 0, "\x00"),
	} {
		s := New(Options{Options: mysql.Options{Tables: []string{"d.outbox"}}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		err := sessionAt(t, s, &rowCount{}).takeAll(t, damaged)
		if _, stops := errors.AsType[*cdc.StopError](err); stops || err == nil {
			t.Errorf("%s: %v, want an error that is retried", name, err)
		}
		err = sessionAt(t, s, &rowCount{}).takeAll(t, damaged)
		if stop, ok := errors.AsType[*cdc.StopError](err); !ok || stop.Reason != "event_unreadable" || !strings.HasPrefix(err.Error(), "transaction 0-1-2: ") ||
			!strings.HasSuffix(stop.Fix, "`cdc-relay position set 0-1-2 --skip-events`") {
			t.Errorf("%s: %s, want event_unreadable", name, cdc.Explain(err))
		}
	}
}

// An event with a wrong checksum is refused before it is known what it is.
func TestWrongChecksumIsReadAgainOnce(t *testing.T) {
	s := New(Options{Options: mysql.Options{Tables: []string{"d.outbox"}}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	for attempt, want := range []string{"", "event_unreadable"} {
		ss := sessionAt(t, s, &rowCount{})
		ss.checksums = true
		e := eventOf(replication.XID_EVENT, 0, "12345678....")
		_, err := ss.event(append([]byte{0}, e.raw...))
		if err = ss.unlessDamaged(err); err == nil || cdc.ReasonOf(err) != want {
			t.Errorf("attempt %d: %v, want reason %q", attempt, err, want)
		}
	}
}

// noting is a queue that notes the position of what it takes: that may be durable at once.
type noting struct {
	rowCount

	of *Source
	at cdc.Position
}

func (q *noting) Offer(b *cdc.Batch) bool {
	q.at = q.of.Progress(b.Seq).Position
	return q.rowCount.Offer(b)
}

// Transactions that were read whole before the stream breaks do not come again.
func TestStreamBreaksBehindATransaction(t *testing.T) {
	s := New(Options{Options: mysql.Options{Tables: []string{"d.outbox"}}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	s.session = sessionAt(t, s, nil)
	var server net.Conn
	s.session.conn, server = net.Pipe()
	var packets []byte
	for _, e := range transactionOf(2, 1) {
		packets = append(append(packets, byte(len(e.raw)+1), 0, 0, 0, 0), e.raw...)
	}
	go server.Write(append(packets, 0, 0, 0, 9)) // at the end an empty one, which is damage
	q := &noting{of: s}
	if err := s.Run(t.Context(), q); err == nil || q.rows != 1 || q.at != "0-1-2" {
		t.Errorf("%d rows were handed on, up to %q, and the attempt ends with %v", q.rows, q.at, err)
	}
}

// A transaction within which the stream ends again and again is passed by hand in the end, but not one that is not visible yet: no repair
// would find its rows.
func TestUnsentTransaction(t *testing.T) {
	for err, passes := range map[error]bool{errors.New("broken pipe"): true, &cdc.FixableError{Cause: errors.New("no connection")}: false} {
		s := New(Options{Options: mysql.Options{Tables: []string{"d.outbox"}}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		ss := sessionAt(t, s, &rowCount{})
		ss.tx = transaction{open: true, begun: true, id: mysql.GTID{Server: 1, Number: 2}}
		got := ss.unsent(err)
		if u, ok := errors.AsType[*cdc.UnsentError](got); ok != passes || passes && (!strings.Contains(u.Past, "position set") || !strings.Contains(u.Past, "0 events in flight, ")) {
			t.Errorf("%v: %+v", err, got)
		}
	}
}

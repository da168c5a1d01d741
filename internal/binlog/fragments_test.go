package binlog

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// A fragment of a rows event of a tracked table, as MariaDB 12.3 writes it, ends the run at its transaction, of which nothing is handed on.
//
//covers:binlogs 20 messages both
func TestFragmentsOfRowsStop(t *testing.T) {
	s := New(Options{Options: mysql.Options{Tables: []string{"d.outbox"}}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	q := &rowCount{}
	err := sessionAt(t, s, q).takeAll(t, mapEvent(), rowEvent(goodRow), eventOf(partialRows, 0, "\x02\x00\x00\x00\x01\x00\x00\x00\x00..."), xidEvent())
	stop, ok := errors.AsType[*cdc.StopError](err)
	if !ok || stop.Reason != "row_fragments" || !strings.HasPrefix(err.Error(), "transaction 0-1-2: ") {
		t.Fatalf("%v, want row_fragments", err)
	}
	if !strings.HasPrefix(stop.Fix, "raise binlog_row_event_fragment_threshold") || !strings.HasSuffix(stop.Fix, "`cdc-relay position set 0-1-2 --skip-events`") {
		t.Errorf("fix: %s", stop.Fix)
	}
	if q.rows > 0 || s.received.String() != "0-1-1" {
		t.Errorf("%d rows were handed on, and the position is %s", q.rows, s.received)
	}
}

// A replica that applies late has a later time in the GTID event, behind which repair would miss the row.
func TestRepairBeginsWithTheStatement(t *testing.T) {
	s := New(Options{Options: mysql.Options{Tables: []string{"d.outbox"}}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	ss := sessionAt(t, s, nil)
	ss.tx = transaction{open: true, begun: true, id: mysql.GTID{Server: 1, Number: 2}, micros: 90e6}
	var err error
	for _, e := range []event{mapEvent(), eventOf(partialRows, 0, "\x02\x00\x00\x00\x01\x00\x00\x00\x00...")} {
		e.raw[0] = 7 // seconds
		err = ss.take(t.Context(), e)
	}
	if fix := cdc.Fix(ss.located(t.Context(), err)); !strings.Contains(fix, "--since 1970-01-01T00:00:07Z`") {
		t.Errorf("fix: %s", fix)
	}
}

// Fragments of a table that is not tracked are left out, and give their transaction its time.
func TestFragmentsOfAnotherTable(t *testing.T) {
	s := New(Options{Options: mysql.Options{Tables: []string{"d.other"}}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	s.flavor = cdc.MariaDB
	part := eventOf(partialRows, 0, "\x02\x00\x00\x00\x01\x00\x00\x00\x00...")
	part.raw[0] = 7 // seconds
	ss := sessionAt(t, s, &rowCount{})
	if err := ss.takeAll(t, mapEvent(), part, part, xidEvent()); err != nil || s.received.String() != "0-1-2" {
		t.Errorf("%v, and the position is %s", err, s.received)
	}
	ss.tx = transaction{open: true, begun: true, id: mysql.GTID{Server: 1, Number: 2}}
	if at, err := ss.timeOf(ss.tx.id, part); at != 7e6 || err != nil {
		t.Errorf("%d, %v", at, err)
	}
}

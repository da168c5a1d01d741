package binlog

import (
	"encoding/binary"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// eventOf makes an event without a checksum.
func eventOf(kind replication.EventType, flags uint16, body string) event {
	raw := make([]byte, eventHeader, eventHeader+len(body))
	raw[4] = byte(kind)
	binary.LittleEndian.PutUint32(raw[9:], uint32(eventHeader+len(body)))
	binary.LittleEndian.PutUint16(raw[17:], flags)
	return event{append(raw, body...)}
}

// Events that a test server cannot be made to write.
//
//covers:binlogs 20 messages both
func TestRareEvents(t *testing.T) {
	w, _ := zstd.NewWriter(nil)
	query := func(text string) event { return eventOf(replication.QUERY_EVENT, 0, strings.Repeat("\x00", 14)+text) }
	huge := w.EncodeAll(eventOf(replication.ROWS_QUERY_EVENT, 0, strings.Repeat("x", 2*chunkSize)).raw, []byte("\x02\x01\x00\x00"))
	for name, tt := range map[string]struct {
		event  event
		reason string // "": left out
	}{
		"incident":                   {eventOf(replication.INCIDENT_EVENT, 0, "\x01\x00\x0dthe log broke"), "incident"},
		"transaction without a GTID": {eventOf(replication.ANONYMOUS_GTID_EVENT, 0, ""), "gtid_mode"},
		"unknown":                    {eventOf(120, 0, ""), "unknown_event"},
		"unknown and ignorable":      {eventOf(120, 0x80, ""), ""},
		"huge and compressed":        {eventOf(replication.TRANSACTION_PAYLOAD_EVENT, 0, string(huge)), ""},
		"rolled back to a savepoint": {query("ROLLBACK TO `a`"), ""},
		"rolled back in another way": {query("ROLLBACK WORK TO `a`"), "unknown_event"},
		"heartbeat":                  {eventOf(replication.HEARTBEAT_EVENT, 0, "binlog.000001"), ""},
	} {
		s := New(Options{Options: mysql.Options{Tables: []string{"d.outbox"}}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		ss := sessionAt(t, s, nil)
		err := ss.take(t.Context(), tt.event)
		if err != nil {
			err = ss.located(t.Context(), err)
		}
		switch {
		case cdc.ReasonOf(err) != tt.reason || (err != nil) != (tt.reason != ""):
			t.Errorf("%s: %v, want %s", name, err, tt.reason)
		case cap(ss.payload.raw) > chunkSize:
			t.Errorf("%s: keeps %d bytes", name, cap(ss.payload.raw))
		}
	}
}

// An event that cannot be read is named without what stands in it.
func TestUnreadableEvent(t *testing.T) {
	s := New(Options{Options: mysql.Options{Tables: []string{"d.outbox"}}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	ss := newSession(s, newDump(nil, "", &dialer{flavor: s.flavor}))
	testenv.Must(t, ss.format(formatEvent()))
	_, err := ss.parse(eventOf(replication.WRITE_ROWS_EVENTv2, 0, "\x01\x00\x00\x00\x00\x00\x01\x00\x02\x00\x01\xffa secret"))
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "event of kind 30") {
		t.Errorf("%v", err)
	}
}

// FuzzTake holds every event that a server could send to an error at worst.
func FuzzTake(f *testing.F) {
	f.Add(byte(replication.TABLE_MAP_EVENT), "\x01\x00\x00\x00\x00\x00\x01\x00\x01d\x00\x06outbox\x00\x01\x03\x00\x01")
	f.Add(byte(replication.WRITE_ROWS_EVENTv2), "\x01\x00\x00\x00\x00\x00\x01\x00\x02\x00\x01\xff\x00\x01\x00\x00\x00")
	f.Add(byte(replication.TRANSACTION_PAYLOAD_EVENT), "\x02\x01\x00\x03\x01\x0a\x01\x01\x04\x00\x28\xb5\x2f\xfd")
	f.Add(byte(replication.EXECUTE_LOAD_QUERY_EVENT), "\x00")
	f.Add(byte(replication.XA_PREPARE_LOG_EVENT), "\x01")
	f.Add(byte(partialRows), "\x01\x00\x00\x00\x01\x00\x00\x00\x01\x1e\x00\x00\x00\x00\x00\x00\x00"+string(eventOf(replication.WRITE_ROWS_EVENTv1, 0, "\x01\x00\x00\x00\x00\x00\x01\x00\x01\xff\x00").raw))
	f.Fuzz(func(t *testing.T, kind byte, body string) {
		switch replication.EventType(kind) { //nolint:exhaustive // these go to go-mysql's parser, which has tests of its own
		case replication.QUERY_EVENT, replication.MARIADB_QUERY_COMPRESSED_EVENT, replication.FORMAT_DESCRIPTION_EVENT,
			replication.GTID_EVENT, replication.GTID_TAGGED_LOG_EVENT, replication.MARIADB_GTID_EVENT:
			return
		}
		s := New(Options{Options: mysql.Options{Tables: []string{"d.outbox"}}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		ss := newSession(s, newDump(nil, "", &dialer{flavor: s.flavor}))
		defer ss.payload.close()
		_ = ss.take(t.Context(), eventOf(replication.EventType(kind), 0, body))
	})
}

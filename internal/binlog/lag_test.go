package binlog

import (
	"log/slog"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/prometheus/client_golang/prometheus"
)

// A heartbeat says that the end of the binlog is reached, and a young transaction too.
func TestLag(t *testing.T) {
	s := New(Options{}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	ss := newSession(s, newDump(nil, "", &dialer{flavor: s.flavor}))
	before := func(d time.Duration) { ss.aged(ss.read.Add(-d).UnixMicro()) }
	before(time.Hour)
	if got := s.Lag().Round(time.Second); got != time.Hour {
		t.Errorf("%s behind, want an hour", got)
	}
	before(time.Second)
	if s.Lag() != 0 {
		t.Errorf("%s behind a transaction of a second ago", s.Lag())
	}
	for _, kind := range []replication.EventType{replication.HEARTBEAT_EVENT, replication.HEARTBEAT_LOG_EVENT_V2} {
		before(time.Hour)
		if err := ss.take(t.Context(), eventOf(kind, 0, "binlog.000001")); err != nil || s.Lag() != 0 {
			t.Errorf("%v, %s behind after a heartbeat", err, s.Lag())
		}
	}
	before(-time.Hour) // a clock that is ahead
	if s.Lag() != 0 {
		t.Errorf("%s behind the future", s.Lag())
	}
}

package binlog

import (
	"log/slog"
	"testing"

	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// takeRows takes a table map and an event of rows in a transaction of its own.
func takeRows(t *testing.T, table, rows string) {
	t.Helper()
	s := New(Options{Options: mysql.Options{Tables: []string{"d.outbox"}}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	ss := sessionAt(t, s, &rowCount{})
	ss.charsets = collations()
	_ = ss.takeAll(t, eventOf(replication.TABLE_MAP_EVENT, 0, table), eventOf(replication.WRITE_ROWS_EVENTv2, 0, rows), xidEvent())
	rows = rows[:min(8, len(rows))] + rows[min(10, len(rows)):] // without extra data
	_ = ss.takeAll(t, eventOf(replication.TABLE_MAP_EVENT, 0, table), eventOf(replication.MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1, 0, rows), xidEvent())
}

// Whatever is damaged in a table map or in rows ends in an error at worst, and never in a panic or an endless loop.
func TestDamagedRowsEndInAnError(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.SampledFrom(samples()).Draw(rt, "sample")
		table, rows := s.events(rapid.IntRange(1, 4).Draw(rt, "rows"))
		takeRows(t, damaged(rt, table.body()), damaged(rt, rows.body()))
	})
}

// damaged changes, cuts or leaves out a few bytes behind the table id.
func damaged(t *rapid.T, body []byte) string {
	b := append([]byte(nil), body...)
	for range rapid.IntRange(0, 2).Draw(t, "damages") {
		i := rapid.IntRange(6, len(b)-1).Draw(t, "at")
		switch rapid.IntRange(0, 2).Draw(t, "damage") {
		case 0:
			b[i] = rapid.Byte().Draw(t, "byte")
		case 1:
			b = append(b[:max(8, i)], b[min(len(b), i+1):]...)
		case 2:
			b = b[:max(8, i)]
		}
	}
	return string(b)
}

// FuzzRows holds every table map and its rows to an error at worst.
func FuzzRows(f *testing.F) {
	for _, s := range samples() {
		table, rows := s.events(2)
		f.Add(string(table.body()), string(rows.body()))
	}
	f.Fuzz(takeRows)
}

package binlog

import (
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// Whatever is damaged in a table map or in rows ends in an error at worst, and never in a panic or an endless loop.
func TestDamagedRowsEndInAnError(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s := New(Options{Options: mysql.Options{Tables: []string{"d.outbox"}}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	for range 5000 {
		table, rows := damaged(random, mapEvent().body()), damaged(random, rowEvent(goodRow).body())
		ss := sessionAt(t, s, &rowCount{})
		func() {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("%v of table map %q and rows %q", r, table, rows)
				}
			}()
			_ = ss.takeAll(t, eventOf(replication.TABLE_MAP_EVENT, 0, table), eventOf(replication.WRITE_ROWS_EVENTv2, 0, rows), eventOf(replication.XID_EVENT, 0, "12345678"))
		}()
	}
}

// damaged changes, cuts or adds a few bytes behind the table id.
func damaged(random *rand.Rand, body []byte) string {
	b := append([]byte(nil), body...)
	for range random.IntN(3) {
		i := 6 + random.IntN(len(b)-6)
		switch random.IntN(3) {
		case 0:
			b[i] = byte(random.IntN(256))
		case 1:
			b = append(b[:max(8, i)], b[min(len(b), i+1):]...)
		case 2:
			b = b[:max(8, i)]
		}
	}
	return string(b)
}

package wal

import (
	"testing"
)

// A stop under load confirms everything that is durable.
func TestStopUnderLoadConfirmsEverything(t *testing.T) {
	d := newDatabase(t)
	missed := 0
	for i := range 20 {
		s, q := d.source(), newQueue(t)
		q.confirm = s.Confirm
		stop := tailing(t, s, q)
		d.insert(i*3000+1, i*3000+3000)
		q.waitCount(t, 1)
		ends(t, stop)
		var confirmed string
		if err := d.conn.QueryRow(t.Context(), `SELECT lpad(upper(to_hex((confirmed_flush_lsn - '0/0')::bigint)), 16, '0')
			FROM pg_replication_slots WHERE slot_name = $1`, d.name).Scan(&confirmed); err != nil {
			t.Fatal(err)
		}
		if confirmed < string(s.Progress(q.last()).Position) {
			missed++
		}
	}
	if missed > 0 {
		t.Errorf("%d of 20 stops confirmed less than what was durable", missed)
	}
}

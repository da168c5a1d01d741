package faults

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// onBinlogs runs fn on a fresh database of MySQL and on one of MariaDB, at the same time.
func onBinlogs(t *testing.T, fn func(t *testing.T, db *cdctest.MySQL)) {
	t.Helper()
	eachBinlog(t, func(t *testing.T, flavor string) { fn(t, newMySQL(t, flavor)) })
}

// eachBinlog runs fn for MySQL and for MariaDB, at the same time.
func eachBinlog(t *testing.T, fn func(t *testing.T, flavor string)) {
	t.Helper()
	for _, flavor := range binlogs() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			fn(t, flavor)
		})
	}
}

// Start with a Redis that was rolled back: the checkpoint is the only copy of the position, so events published since are
// repeated; none is lost.
//
//covers:binlogs 26 events
func TestBinlogWithRolledBackRedis(t *testing.T) {
	t.Parallel()
	onBinlogs(t, func(t *testing.T, db *cdctest.MySQL) {
		r := newRig(t, db, cdctest.InRedis, nil)
		r.Start()
		r.AwaitSaved(r.Append("k", 10))
		old := inRedis(r, "GET")
		r.AwaitSaved(r.Append("k", 20))
		sigterm(r)
		inRedis(r, "SET", old)
		r.FaultUnbounded("Redis rolled back")
		r.Append("k", 10)
		r.Start()
		r.AwaitSaved(r.Append("k", 10))
		repeats(t, r, 20)
	})
}

// goesOnOnce verifies that a single process has published everything exactly once.
func goesOnOnce(t *testing.T, r *cdctest.Rig) {
	t.Helper()
	once(t, r)
	startedOnce(r)
}

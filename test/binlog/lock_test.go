package binlog

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// A standby leaves no connection behind when it waits again. It also stands by where the server limits the time of
// statements to less than it waits.
func TestWaitForTheLock(t *testing.T) {
	onEach(t, func(d *database) {
		t := d.t
		d.simple()
		o := d.options(current())
		o.NoLock = false
		leader, standby := locking(o), locking(o)
		if _, _, err := leader.Acquire(t.Context(), none); err != nil {
			t.Fatal(err)
		}
		defer leader.Release(t.Context())
		before := d.sessions()
		limit, unlimited := "SET GLOBAL max_execution_time = 300", "SET GLOBAL max_execution_time = 0"
		if d.flavor == testenv.MariaDBFlavor {
			limit, unlimited = "SET GLOBAL max_statement_time = 0.3", "SET GLOBAL max_statement_time = 0"
		}
		for _, statement := range []string{unlimited, limit} {
			d.exec(statement)
			_, _, err := standby.Acquire(t.Context(), none)
			d.exec(unlimited)
			if !errors.Is(err, cdc.ErrStandby) {
				t.Errorf("%s: %v", statement, err)
			}
		}
		for deadline := time.Now().Add(5 * time.Second); d.sessions() > before; { // the server ends a silent one after 10 s
			if time.Now().After(deadline) {
				t.Fatalf("the standby left %d connections", d.sessions()-before)
			}
		}
	})
}

func locking(o binlog.Options) *binlog.Source {
	return binlog.New(o, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
}

// sessions counts the connections to the server.
func (d *database) sessions() (n int) {
	d.t.Helper()
	if err := d.db.QueryRowContext(d.t.Context(), "SELECT COUNT(*) FROM information_schema.processlist").Scan(&n); err != nil {
		d.t.Fatal(err)
	}
	return n
}

package binlog

import (
	"errors"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// A server that could not log a change writes an INCIDENT. On MariaDB it has no GTID, and the fix is to continue in the next
// binlog file.
//
//covers:binlogs 20 rows both
func TestIncident(t *testing.T) {
	onEach(t, func(d *database) {
		t := d.t
		d.simple()
		d.exec("CREATE TABLE plain (n INT, pad LONGBLOB) ENGINE = MyISAM; SET GLOBAL max_binlog_stmt_cache_size = 4096, GLOBAL binlog_stmt_cache_size = 4096")
		defer d.exec("SET GLOBAL max_binlog_stmt_cache_size = DEFAULT, GLOBAL binlog_stmt_cache_size = DEFAULT")
		fresh := d.open(d.dsn)
		defer fresh.Close()
		r := start(t, d.source(current()), newQueue(), none)
		d.session(insert(1))
		if _, err := fresh.ExecContext(t.Context(), "INSERT INTO plain VALUES (1, REPEAT('x', 10000)), (1, REPEAT('x', 10000))"); err == nil {
			t.Fatal("the server could log a transaction larger than its limit")
		}
		var stop *cdc.StopError
		err := r.ended()
		if !errors.As(err, &stop) || stop.Reason != "incident" || stop.Class != cdc.ClassRuntime {
			t.Fatalf("%v, want incident", err)
		}
		r.expect(1)
		if d.flavor == "mysql" {
			d.past(err, binlog.Options{}, insert(3))
			return
		}
		if !strings.Contains(cdc.Fix(err), "FLUSH BINARY LOGS") || !strings.HasPrefix(err.Error(), "after the position "+d.position()+":") {
			t.Errorf("%q does not say what to do", err)
		}
		d.exec("FLUSH BINARY LOGS")
		again := start(t, d.source(current()), newQueue(), none)
		d.session(insert(3))
		again.expect(3)
		again.mustStop()
	})
}

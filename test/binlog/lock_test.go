package binlog

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
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
		leader, standby := newSource(o), newSource(o)
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
		// The server ends a silent one after 10 s.
		cdctest.Eventually(t, 5*time.Second, "the standby to close its connections", func() bool { return d.sessions() <= before })
	})
}

// sessions counts the connections to the server.
func (d *database) sessions() (n int) {
	d.t.Helper()
	d.scan("SELECT COUNT(*) FROM information_schema.processlist", &n)
	return n
}

// A user that may not open the four connections of a start is told so.
func TestTooFewConnectionsOfTheUser(t *testing.T) {
	onEach(t, func(d *database) {
		t := d.t
		d.simple()
		testenv.Must(t, d.server.CreateUser(t.Context(), "few", "secret", "", d.server.ReplicationRights()+" ON *.*", "SELECT ON "+d.name+".outbox"))
		d.dsn = d.server.UserDSN("few", "secret", d.name, "")
		o := d.options(current())
		o.NoLock, o.WaitUntilVisible = false, true
		for limit := 1; limit <= 4; limit++ {
			d.exec(fmt.Sprintf("ALTER USER few@'127.0.0.1' WITH MAX_USER_CONNECTIONS %d", limit))
			s := newSource(o)
			_, _, err := s.Acquire(t.Context(), none)
			s.Release(t.Context())
			d.endDumps()
			if refused := err != nil && strings.Contains(cdc.Explain(err), "a relay needs 4 connections"); refused != (limit < 4) {
				t.Errorf("%d: %v", limit, err)
			}
		}
	})
}

package binlog

import (
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

// A relay whose window is full closes its connection, or the server does after net_write_timeout. Once there is room it continues from its
// position.
//
//covers:binlogs 32 rows both
func TestHangUpWhileTheWindowIsFull(t *testing.T) {
	for name, timeout := range map[string]string{"by the relay": "DEFAULT", "by the server": "1"} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(d *database) {
				d.simple()
				d.exec("CREATE TABLE other (pad LONGBLOB)")
				d.exec("SET GLOBAL net_write_timeout = " + timeout)
				defer d.exec("SET GLOBAL net_write_timeout = DEFAULT")
				r := d.full()
				d.eventually(noDump) // before net_write_timeout, which is 60 s by default
				select {
				case <-r.Done:
					d.t.Fatalf("the source ended while there is no room: %v", r.Ended())
				default:
				}
				d.drained(r)
			})
		})
	}
}

// noDump is a query for whether there is no dump thread.
const noDump = "SELECT COUNT(*) = 0 FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"

// full starts a source and writes until its window is full.
func (d *database) full() *conformance.Running {
	d.t.Helper()
	q := newQueue(d.t)
	q.Limit = 1
	r := conformance.Start(d.t, d.source(current()), q, none)
	d.session(insert(1))
	r.Expect(1)
	for n := range 40 {
		d.session("BEGIN", insert(2+3*n, 3+3*n), "INSERT INTO other VALUES (REPEAT('x', 1000000))", insert(4+3*n), "COMMIT")
	}
	return r
}

// drained makes room and verifies that the rows that full wrote arrive once and in order.
func (d *database) drained(r *conformance.Running) {
	d.t.Helper()
	r.Room()
	if err := r.Ended(); err == nil {
		d.t.Fatal("Run returned no error although the connection ended")
	}
	again := r.Again(none)
	again.ExpectUpTo(1, 121)
}

// eventually waits until a query returns 1.
func (d *database) eventually(query string) {
	d.t.Helper()
	until(d.t, func() (done bool) {
		d.scan(query, &done)
		return done
	})
}

// A connection that delivers nothing, not even heartbeats, is closed. A connection of an idle server, which delivers
// heartbeats, is not.
//
//covers:binlogs 31 rows both
func TestReconnectAfterSilence(t *testing.T) {
	var silent, idle []*conformance.Running
	for kind, server := range servers {
		d := newDatabase(t, kind)
		d.simple()
		idle = append(idle, start(t, d.source(current()), none))
		way := testenv.Proxy(t, server.Addr())
		direct := d.dsn
		d.dsn = strings.Replace(direct, server.Addr(), way.Addr(), 1)
		silent = append(silent, start(t, d.source(current()), none))
		d.dsn = direct
		way.Swallow(testenv.Responses)
	}
	for i, r := range silent {
		if err := r.Ended(); err == nil || !strings.Contains(err.Error(), "not even a heartbeat") {
			t.Errorf("%v, want an error about missing heartbeats", err)
		}
		if err := idle[i].Stop(); err != nil {
			t.Errorf("an idle server: %v", err)
		}
	}
}

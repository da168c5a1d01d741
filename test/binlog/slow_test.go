package binlog

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// A server sends a reader away that takes nothing for net_write_timeout, as one whose window is full for long. The
// next attempt goes on where this one was.
func TestSentAway(t *testing.T) {
	onEach(t, func(d *database) {
		t := d.t
		d.simple()
		d.exec("CREATE TABLE other (pad LONGBLOB)")
		d.exec("SET GLOBAL net_write_timeout = 1")
		defer d.exec("SET GLOBAL net_write_timeout = DEFAULT")
		q := newQueue()
		q.limit = 1
		r := start(t, d.source(current()), q, none)
		d.session(insert(1))
		r.expect(1)
		d.session(insert(2)) // for which there is no room
		for n := range 40 {
			d.session("INSERT INTO other VALUES (REPEAT('x', 1000000))", insert(3+n))
		}
		d.eventually("SELECT COUNT(*) = 0 FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'")
		q.mu.Lock()
		q.limit = 0
		q.mu.Unlock()
		q.space <- struct{}{}
		if err := r.ended(); err == nil {
			t.Fatal("a connection that the server has ended is no error")
		}
		again := start(t, r.source, q, none)
		for i, n := range numbers(again.await(42)) {
			if n != i+1 {
				t.Fatalf("row %d is %d", i, n)
			}
		}
		if err := again.stop(); err != nil {
			t.Error(err)
		}
	})
}

// eventually waits until a query says 1.
func (d *database) eventually(query string) {
	d.t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	ctx, cancel := context.WithTimeout(d.t.Context(), 30*time.Second)
	defer cancel()
	for {
		var done bool
		if err := d.db.QueryRowContext(ctx, query).Scan(&done); err != nil {
			d.t.Fatalf("%s: %v", query, err)
		}
		if done {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			d.t.Fatalf("%s is not so after 30 s", query)
		}
	}
}

// A connection that is open and brings nothing, not even the heartbeats of an idle server, is given up; one that
// brings heartbeats is not, though nothing is written.
func TestSilence(t *testing.T) {
	var silent, idle []*running
	for kind, server := range servers {
		d := newDatabase(t, kind)
		d.simple()
		idle = append(idle, start(t, d.source(current()), newQueue(), none))
		way := testenv.Proxy(t, server.Addr())
		direct := d.dsn
		d.dsn = strings.Replace(direct, server.Addr(), way.Addr(), 1)
		silent = append(silent, start(t, d.source(current()), newQueue(), none))
		d.dsn = direct
		if err := way.Swallow(testenv.Responses); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range silent {
		if err := r.ended(); err == nil || !strings.Contains(err.Error(), "not even a heartbeat") {
			t.Errorf("%v, want that the server is silent", err)
		}
		if err := idle[i].stop(); err != nil {
			t.Errorf("an idle server: %v", err)
		}
	}
}

package binlog

import (
	"context"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

// origins are statements that give the session's next transaction a GTID of another origin.
func origins(flavor string) []string {
	if flavor == "mysql" {
		const other = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
		return []string{
			"SET gtid_next = 'AUTOMATIC'", "SET gtid_next = 'AUTOMATIC:blue'", "SET gtid_next = '" + other + ":7'",
			"SET gtid_next = 'AUTOMATIC:green'", "SET gtid_next = '" + other + ":5'", "SET gtid_next = '" + other + ":red:3'",
			"SET gtid_next = 'AUTOMATIC:blue'", "SET gtid_next = 'AUTOMATIC'", "SET gtid_next = '" + other + ":6'",
		}
	}
	return []string{
		"DO 0", "SET SESSION gtid_domain_id = 7", "SET SESSION gtid_domain_id = 1", "SET SESSION server_id = 4000000000",
		"SET SESSION gtid_domain_id = 7", "DO 0", "SET SESSION gtid_domain_id = 7, SESSION server_id = 4000000000", "SET SESSION gtid_domain_id = 1",
	}
}

// A binlog has transactions of several origins: on MySQL of several servers, out of order, with gaps and with tags; on
// MariaDB of several domains, and of several servers in a domain. Rows arrive in binlog order, a reconnect repeats none,
// and each position continues exactly behind it.
//
//covers:binlogs 29 rows both
func TestGTIDsOfSeveralServers(t *testing.T) {
	onEach(t, func(d *database) {
		t := d.t
		d.simple()
		r := start(t, d.source(current()), none)
		var rows []int
		var positions []cdc.Progress
		for n, origin := range origins(d.flavor) {
			d.fresh(origin, insert(n))
			rows = append(rows, n)
			r.Expect(rows...)
			positions = append(positions, r.Progress())
			if want := d.parsed(cdc.Position(d.position())); positions[n].Position != want {
				t.Fatalf("after %q the position is %s, want %s", origin, positions[n].Position, want)
			}
		}
		d.endDumps()
		if err := r.Ended(); err == nil {
			t.Fatal("a lost connection is no error")
		}
		rows = append(rows, 100)
		d.session(insert(100))
		r = r.Again(none)
		r.Expect(rows...)
		r.MustStop()
		for n, progress := range positions {
			again := start(t, d.source(binlog.Options{}), conformance.From(cdc.Checkpoint{Source: cdc.Source{SystemID: d.flavor, Database: d.name}, Progress: progress}))
			again.Expect(rows[n+1:]...)
			again.MustStop()
			again.Expect(rows[n+1:]...) // and no more meanwhile
		}
	})
}

// fresh runs statements on a new connection and closes it.
func (d *database) fresh(statements ...string) {
	d.t.Helper()
	db := d.db
	d.db = d.open(d.dsn)
	d.session(statements...)
	if err := d.db.Close(); err != nil {
		d.t.Error(err)
	}
	d.db = db
}

// parsed returns a position in its stored form.
func (d *database) parsed(p cdc.Position) cdc.Position {
	d.t.Helper()
	stored, err := mysql.ParsePosition(cdc.Flavor(d.flavor), p)
	testenv.Must(d.t, err)
	return stored
}

// stored returns a function that loads a checkpoint of this database at a position.
func (d *database) stored(p cdc.Position) func(context.Context, cdc.Source) (cdc.Checkpoint, bool, error) {
	return func(context.Context, cdc.Source) (cdc.Checkpoint, bool, error) {
		return cdc.Checkpoint{Source: cdc.Source{SystemID: d.flavor, Database: d.name}, Progress: cdc.Progress{Position: p}}, true, nil
	}
}

package wal

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

// rows returns the rows of table events and whether a role can delete them.
func (d *database) rows(role string) (*postgres.Rows, error) {
	d.t.Helper()
	r := d.open(role).Rows(postgres.RowOptions{
		RowAction: cdc.RowAction{Table: "public.events", SQL: "public.events", Key: "id", At: "at", OlderThan: conformance.Month}, Slot: d.name, Load: checkpoint.None{}.Load,
	})
	err := r.Verify(d.t.Context())
	return r, err
}

// Rows of a table that inherits from the outbox are not published, and not deleted, also if it is made in the middle of a pass, which
// has verified that there was none.
func TestRowsOfAChildAreKept(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE DOMAIN moment AS timestamptz; CREATE TABLE events (id int UNIQUE, at moment); INSERT INTO events VALUES (1, now() - interval '40 days')")
	r, err := d.rows("")
	testenv.Must(t, err)
	d.exec("CREATE TABLE child () INHERITS (events); INSERT INTO child VALUES (1, now() - interval '40 days'), (2, now() - interval '40 days')")
	keys, _, err := r.Due(t.Context(), 10)
	testenv.Must(t, err)
	if n, err := r.Act(t.Context(), keys, false); n != 1 || err != nil {
		t.Errorf("%d deleted, %v", n, err)
	}
	if left := d.text("SELECT count(*)::text FROM child"); left != "2" {
		cdctest.Violation(t, cdctest.Unpublished, "%s rows of the child are left, want 2", left)
	}
}

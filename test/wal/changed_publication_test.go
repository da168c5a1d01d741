package wal

import (
	"errors"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// A standby that sees the publication change names the position of the slot: it has confirmed none itself.
func TestChangedPublicationWhileStandingBy(t *testing.T) {
	d := newDatabase(t)
	leader, standby := d.source(), d.source()
	if _, _, err := leader.Acquire(t.Context(), none); err != nil {
		t.Fatal(err)
	}
	defer leader.Release(t.Context())
	if _, _, err := standby.Acquire(t.Context(), none); !errors.Is(err, cdc.ErrStandby) {
		t.Fatal(err)
	}
	d.exec("ALTER PUBLICATION " + d.name + " SET (publish = 'insert')")
	var slot string
	if err := d.conn.QueryRow(t.Context(), "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", d.name).Scan(&slot); err != nil {
		t.Fatal(err)
	}
	_, _, err := standby.Acquire(t.Context(), none)
	var stop *cdc.StopError
	if !errors.As(err, &stop) || !strings.Contains(err.Error(), "standing by") || !strings.Contains(err.Error(), "after "+slot+" ") {
		t.Errorf("the standby does not name the slot's position %s: %v", slot, err)
	}
}

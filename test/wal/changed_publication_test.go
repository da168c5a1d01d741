package wal

import (
	"errors"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// A list of columns must have those that are needed, and an altered list is an altered publication.
func TestColumnList(t *testing.T) {
	const listed = "event_id, aggregate_id, payload"
	needs := func(_, column string) bool { return strings.Contains(listed, column) }
	for name, c := range map[string]struct {
		list    string
		needs   func(table, column string) bool
		omitted string // "": the list is accepted
	}{
		"all that are needed": {list: listed, needs: needs},
		"more":                {list: listed + ", event_type", needs: needs},
		"needed one missing":  {list: "event_id, payload", needs: needs, omitted: "aggregate_id"},
		"all are needed":      {list: listed, omitted: "aggregate_type"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t)
			d.needs = c.needs
			d.exec("CREATE TYPE mood AS ENUM ('sad')")
			d.exec("ALTER TABLE outbox ADD price numeric DEFAULT 1.5, ADD moods mood[]")
			d.exec("ALTER PUBLICATION " + d.name + " SET TABLE outbox (" + c.list + ")")
			s := d.source()
			if c.omitted != "" {
				_, _, err := s.Acquire(t.Context(), none)
				if cdc.ReasonOf(err) != "publication" || !strings.Contains(err.Error(), "leaves out column "+c.omitted+" of public.outbox") {
					t.Error(err)
				}
				return
			}
			r := start(t, s)
			d.insert(1, 10)
			r.ExpectUpTo(1, 10)
			d.exec("ALTER PUBLICATION " + d.name + " SET TABLE outbox (" + c.list + ", created_at)")
			if err := r.Ended(); cdc.ReasonOf(err) != cdc.PublicationAltered {
				t.Errorf("the list was altered: %v", err)
			}
			s.Release(t.Context())
		})
	}
}

// A standby that sees the publication change names the position of the slot: it has confirmed none itself.
func TestChangedPublicationWhileStandingBy(t *testing.T) {
	d := newDatabase(t)
	leader, standby := d.source(), d.source()
	acquire(t, leader)
	defer leader.Release(t.Context())
	if _, _, err := standby.Acquire(t.Context(), none); !errors.Is(err, cdc.ErrStandby) {
		t.Fatal(err)
	}
	d.exec("ALTER PUBLICATION " + d.name + " SET (publish = 'insert')")
	slot := d.text("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", d.name)
	_, _, err := standby.Acquire(t.Context(), none)
	if cdc.ReasonOf(err) != cdc.PublicationAltered || !strings.Contains(err.Error(), "standing by") || !strings.Contains(err.Error(), "after "+slot+" ") {
		t.Errorf("the standby does not name the slot's position %s: %v", slot, err)
	}
}

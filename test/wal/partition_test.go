package wal

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/finding"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/wal"
)

// A table whose rows are published under another table's name is refused by check and at the start, because its rows would
// be ignored as those of a table that is not configured. So is a table with one that inherits from it, to which a trigger may
// route rows.
func TestLeafPartitionIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		publication string // its tables and options
		table       string // the configured table
		fix         string // "" if the rows arrive
	}{
		"partition and root":       {"TABLE part, root WITH (publish_via_partition_root)", "public.part", "set tables[].name to public.root"},
		"only the root":            {"TABLE root WITH (publish_via_partition_root)", "public.part", "set tables[].name to public.root"},
		"all tables":               {"ALL TABLES WITH (publish_via_partition_root)", "public.part", "set tables[].name to public.root"},
		"schema of the root":       {"TABLES IN SCHEMA public WITH (publish_via_partition_root)", "public.part", "set tables[].name to public.root"},
		"a parent":                 {"TABLE root WITH (publish_via_partition_root)", "public.mid", "set tables[].name to public.root"},
		"partition and its parent": {"TABLE leaf, mid WITH (publish_via_partition_root)", "public.leaf", "set tables[].name to public.mid"},
		"only the partition":       {"TABLE part WITH (publish_via_partition_root)", "public.part", ""},
		"only a parent":            {"TABLE mid WITH (publish_via_partition_root)", "public.mid", ""},
		"each its own rows":        {"TABLE part, root", "public.part", ""},
		"the root":                 {"TABLE root WITH (publish_via_partition_root)", "public.root", ""},
		"root as its partitions":   {"TABLE root", "public.root", "publish_via_partition_root = true"},
		"a table without heirs":    {"TABLE plain", "public.plain", ""},
		"a table with an heir":     {"TABLE parent", "public.parent", "ALTER TABLE public.heir NO INHERIT \"public\".\"parent\""},
		"an heir":                  {"TABLE heir", "public.heir", ""},
		"a partition of it":        {"TABLE part WITH (publish_via_partition_root)", "public.root", "ADD TABLE"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t)
			d.exec("DROP PUBLICATION " + d.name)
			d.exec("CREATE TABLE root (payload bytea) PARTITION BY LIST (payload)")
			d.exec("CREATE TABLE part PARTITION OF root FOR VALUES IN ('1')")
			d.exec("CREATE TABLE mid PARTITION OF root FOR VALUES IN ('2') PARTITION BY LIST (payload)")
			d.exec("CREATE TABLE leaf PARTITION OF mid FOR VALUES IN ('2')")
			d.exec("CREATE TABLE plain (payload bytea); CREATE TABLE parent (payload bytea); CREATE TABLE heir () INHERITS (parent)")
			d.exec("CREATE PUBLICATION " + d.name + " FOR " + tt.publication)
			o := postgres.Options{Slot: d.name, Tables: []string{tt.table}, DSN: func(context.Context) (string, error) { return server.DSN(d.name, ""), nil }, Publication: d.name}
			found, _ := wal.Check(t.Context(), wal.Options{Options: o}, none)
			var checked string
			for _, f := range found {
				if f.Subject == "publication" && f.Severity == finding.Fail {
					checked = f.Fix
				}
			}
			d.exec("SELECT pg_drop_replication_slot($1)", d.name) // its publication is newer
			d.exec("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", d.name)
			s, q := d.sourceWith(wal.Options{Options: o}), newQueue(t)
			_, _, err := s.Acquire(t.Context(), none)
			s.Release(t.Context())
			var stop *cdc.StopError
			switch {
			case tt.fix == "" && (err != nil || checked != ""):
				t.Fatalf("refused: %v; check: %s", err, checked)
			case tt.fix == "":
				tailing(t, s, q)
				d.exec("INSERT INTO root VALUES ('1'), ('2'); INSERT INTO plain VALUES ('1'); INSERT INTO heir VALUES ('1')")
				q.waitCount(t, 1)
			case !errors.As(err, &stop) || stop.Class != cdc.ClassConfig || !strings.Contains(cdc.Explain(err), tt.fix) || !strings.Contains(checked, tt.fix):
				t.Errorf("start: %v; check: %s; want the fix %q", err, checked, tt.fix)
			}
		})
	}
}

// A table that is attached to a published table while the relay runs is published under that table's name from then on.
func TestAttachedPartitionIsDetected(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE root (payload bytea) PARTITION BY LIST (payload)")
	d.exec("CREATE TABLE part (payload bytea)")
	d.exec("ALTER PUBLICATION " + d.name + " ADD TABLE root, part")
	s, q := d.sourceWith(wal.Options{Options: postgres.Options{Tables: []string{"public.part"}}}), newQueue(t)
	q.confirm = s.Confirm
	if _, _, err := s.Acquire(t.Context(), none); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(t.Context(), q) }()
	d.exec("INSERT INTO part VALUES ('1')")
	q.waitCount(t, 1)
	d.exec("ALTER TABLE root ATTACH PARTITION part FOR VALUES IN ('1')")
	var stop *cdc.StopError
	if err := <-done; !errors.As(err, &stop) || stop.Reason != "publication_changed" {
		t.Errorf("the relay continued, and ended with %v", err)
	}
}

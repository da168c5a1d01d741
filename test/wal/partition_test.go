package wal

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/backfill"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
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
				if f.Subject == "publication" && f.Severity == cdc.SeverityFail {
					checked = f.Fix
				}
			}
			d.exec("SELECT pg_drop_replication_slot($1)", d.name) // its publication is newer
			d.exec("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", d.name)
			s := d.sourceWith(wal.Options{Options: o})
			_, _, err := s.Acquire(t.Context(), none)
			s.Release(t.Context())
			var stop *cdc.StopError
			switch {
			case tt.fix == "" && (err != nil || checked != ""):
				t.Fatalf("refused: %v; check: %s", err, checked)
			case tt.fix == "":
				r := start(t, s)
				d.exec("INSERT INTO root VALUES ('1'), ('2'); INSERT INTO plain VALUES ('1'); INSERT INTO heir VALUES ('1')")
				r.Await(1)
			case !errors.As(err, &stop) || stop.Class != cdc.ClassConfig || !strings.Contains(cdc.Explain(err), tt.fix) || !strings.Contains(checked, tt.fix):
				t.Errorf("start: %v; check: %s; want the fix %q", err, checked, tt.fix)
			}
		})
	}
}

// check fails, and a start warns, where an UPDATE could move a row to another partition, which would publish its event again. A key that is
// a part of the event, or that only the INSERT sets, is none of these.
func TestPartitionKeyThatChanges(t *testing.T) {
	for name, tt := range map[string]struct {
		by    string
		fails bool
	}{
		"status": {"LIST (status)", true}, "expression of a status": {"LIST ((status = 'sent'))", true}, "behind the time": {"RANGE (at, status)", true},
		"nullable time": {"RANGE (sent_at)", true}, "expression of it": {"RANGE (coalesce(sent_at, 'infinity'))", true},
		"time": {by: "RANGE (at)"}, "expression of the time": {by: "RANGE (date_trunc('day', at))"},
		"id": {by: "HASH (id)"}, "part of the event": {by: "LIST (kind)"}, "identity": {by: "RANGE (n)"},
	} {
		by, fails := tt.by, tt.fails
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t)
			d.needs = func(_, column string) bool { return column == "id" || column == "kind" }
			d.exec("CREATE TABLE parted (id uuid, kind text, status text, at timestamp NOT NULL, sent_at timestamp, n bigint GENERATED ALWAYS AS IDENTITY) PARTITION BY " + by)
			d.exec("CREATE TABLE deep (id uuid, kind text, status text, at timestamp NOT NULL, sent_at timestamp, n bigint) PARTITION BY HASH (id)")
			d.exec("CREATE TABLE part PARTITION OF deep FOR VALUES WITH (MODULUS 1, REMAINDER 0) PARTITION BY " + by)
			d.exec("ALTER PUBLICATION " + d.name + " ADD TABLE parted, deep")
			for _, table := range []string{"public.parted", "public.deep"} {
				if table == "public.deep" && by == "RANGE (n)" { // a partition has no identity of its own
					continue
				}
				var log strings.Builder
				o := wal.Options{Options: postgres.Options{
					Slot: d.name, Tables: []string{table}, DSN: func(context.Context) (string, error) { return server.DSN(d.name, ""), nil }, Publication: d.name, Needs: d.needs,
				}}
				found, _ := wal.Check(t.Context(), o, none)
				failed := slices.ContainsFunc(found, func(f cdc.Finding) bool { return f.Severity == cdc.SeverityFail && f.Subject == "publication" })
				s := wal.New(o, slog.New(slog.NewTextHandler(&log, nil)), prometheus.NewRegistry())
				_, _, err := s.Acquire(t.Context(), none)
				s.Release(t.Context())
				if warned := strings.Contains(log.String(), "published again"); err != nil || failed != fails || warned != fails {
					t.Errorf("%s: %v; check fails: %t, the start warns: %t; want %t", table, err, failed, warned, fails)
				}
			}
		})
	}
}

// check warns of a needed column of type oid, whose values are the numbers of large objects.
func TestLargeObjects(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE large (id uuid, body oid)")
	d.exec("ALTER PUBLICATION " + d.name + " ADD TABLE large")
	for _, needed := range []bool{true, false} {
		found, _ := wal.Check(t.Context(), wal.Options{Options: postgres.Options{
			Slot: d.name, Tables: []string{"public.large"}, DSN: func(context.Context) (string, error) { return server.DSN(d.name, ""), nil }, Publication: d.name,
			Needs: func(_, column string) bool { return needed || column == "id" },
		}}, none)
		if warned := slices.ContainsFunc(found, func(f cdc.Finding) bool { return f.Severity == cdc.SeverityWarn && f.Subject == "publication" }); warned != needed {
			t.Errorf("needed: %t, %v", needed, found)
		}
	}
}

// check warns of an encoding in which a text may have no equivalent in UTF-8.
func TestEncodingsThatCannotBeSent(t *testing.T) {
	for encoding, warns := range map[string]bool{"UTF8": false, "LATIN1": false, "SQL_ASCII": true, "WIN1252": true} {
		name := "encoded_" + strings.ToLower(encoding)
		if err := server.Exec(t.Context(), "postgres", "CREATE DATABASE "+name+" TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C' ENCODING '"+encoding+"'"); err != nil {
			t.Fatal(err)
		}
		found, _ := wal.Check(t.Context(), wal.Options{Options: postgres.Options{DSN: func(context.Context) (string, error) { return server.DSN(name, ""), nil }}}, none)
		if warned := slices.ContainsFunc(found, func(f cdc.Finding) bool { return f.Severity == cdc.SeverityWarn && f.Subject == "server" }); warned != warns {
			t.Errorf("%s: %v", encoding, found)
		}
	}
}

// Where sessions only read unless they ask for more, those that write do.
func TestSessionsThatWrite(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE events (id int PRIMARY KEY, at timestamptz, sent boolean)")
	d.exec("ALTER DATABASE " + d.name + " SET default_transaction_read_only = on")
	events := func(a cdc.RowAction) postgres.RowOptions {
		a.Table, a.SQL, a.Key = "public.events", "public.events", "id"
		return postgres.RowOptions{RowAction: a}
	}
	for name, prepare := range map[string]func(*postgres.Database) error{
		"setup": func(db *postgres.Database) error { return db.Patient(t.Context()) },
		"partitions": func(db *postgres.Database) error {
			return db.Partitions(outboxName(), outbox.PostgresRoutine(outboxName()), d.name, checkpoint.None{}.Load).Maintainable(t.Context())
		},
		"retention": func(db *postgres.Database) error {
			return db.Rows(events(cdc.RowAction{At: "at"})).Verify(t.Context())
		},
		"write_back": func(db *postgres.Database) error {
			return db.Rows(events(cdc.RowAction{Pending: "NOT sent"})).Verify(t.Context())
		},
	} {
		db := d.open("")
		err := prepare(db)
		if err == nil {
			_, err = db.Conn.Exec(t.Context(), "INSERT INTO public.events SELECT count(*) FROM public.events")
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A table that cannot be marked leaves the role's search_path to the triggers of the others on its connection.
func TestSearchPathAfterARefusedTable(t *testing.T) {
	d := newDatabase(t)
	db := d.open("")
	row := cdc.RowAction{Table: "public.missing", SQL: "public.missing", Key: "id", Pending: "NOT sent"}
	if err := db.Rows(postgres.RowOptions{RowAction: row}).Verify(t.Context()); err == nil {
		t.Error("it was found")
	}
	var path string
	if err := db.Conn.QueryRow(t.Context(), "SHOW search_path").Scan(&path); err != nil || path != `"$user", public` {
		t.Errorf("search_path is %q, %v", path, err)
	}
}

// No timeout of the role ends the session that streams: the server decodes a transaction within one of its own.
func TestTimeoutsOfTheRole(t *testing.T) {
	for _, version := range []int{14, 18} {
		p := testenv.Postgres(t, testenv.PostgresOptions{Version: version})
		names := []string{"statement_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout", "transaction_timeout"}
		if version < 17 {
			names = names[:3]
		}
		for _, name := range names {
			testenv.Must(t, p.Exec(t.Context(), "postgres", "ALTER ROLE postgres SET "+name+" = '30s'"))
		}
		conn, err := postgres.ConnectReplication(t.Context(), postgres.Options{DSN: func(context.Context) (string, error) { return p.DSN("postgres", ""), nil }})
		testenv.Must(t, err)
		for _, name := range names {
			if result, err := conn.Exec(t.Context(), "SHOW "+name).ReadAll(); err != nil || string(result[0].Rows[0][0]) != "0" {
				t.Errorf("PostgreSQL %d, %s: %v, %v", version, name, result, err)
			}
		}
		postgres.CloseConn(t.Context(), conn)
	}
}

// A partition whose rows never reach the WAL is noticed while the relay runs.
func TestUnloggedPartitionIsDetected(t *testing.T) {
	d := newDatabase(t)
	r := start(t, d.source())
	d.insert(1, 1)
	r.Await(1)
	d.exec("CREATE UNLOGGED TABLE fast PARTITION OF outbox FOR VALUES FROM ('2000-01-01') TO ('2000-01-02')")
	if err := r.Ended(); cdc.ReasonOf(err) != postgres.UnfitTable {
		t.Errorf("ended with %v", err)
	}
}

// A table that is attached to a published table while the relay runs is published under that table's name from then on.
func TestAttachedPartitionIsDetected(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE root (payload bytea) PARTITION BY LIST (payload)")
	d.exec("CREATE TABLE part (payload bytea)")
	d.exec("ALTER PUBLICATION " + d.name + " ADD TABLE root, part")
	r := startConfirming(t, d.sourceWith(wal.Options{Options: postgres.Options{Tables: []string{"public.part"}}}))
	d.exec("INSERT INTO part VALUES ('1')")
	r.Await(1)
	d.exec("ALTER TABLE root ATTACH PARTITION part FOR VALUES IN ('1')")
	if err := r.Ended(); cdc.ReasonOf(err) != "publication_changed" {
		t.Errorf("the relay continued, and ended with %v", err)
	}
}

// The publication is read every second, also from a catalog of millions of tables.
func TestPublicationIsReadByIndex(t *testing.T) {
	d := newDatabase(t)
	d.exec("SET cpu_tuple_cost = 1") // a small catalog costs as much as a large one
	var query string
	_, failed := postgres.ReadPublication(t.Context(), d.conn, postgres.Options{Publication: d.name, Tables: []string{"public.outbox"}}, 150000)
	_ = d.conn.QueryRow(t.Context(), "SELECT statement FROM pg_prepared_statements WHERE statement LIKE $1", "%pg_partition_tree%").Scan(&query)
	rows, _ := d.conn.Query(t.Context(), "EXPLAIN "+query, d.name, []string{"public.outbox"})
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if all := strings.Join(plan, "\n"); cmp.Or(failed, err) != nil || !strings.Contains(all, "Index Cond: (relname = ANY") || strings.Contains(all, "Seq Scan on pg_class") {
		t.Errorf("%v\n%s", cmp.Or(failed, err), all)
	}
}

// An alteration of the publication while repair reads the table is told at its end.
func TestChangedPublicationWhileRepairing(t *testing.T) {
	d := newDatabase(t)
	dsn := func(context.Context) (string, error) { return server.DSN(d.name, ""), nil }
	r := wal.NewRepair(wal.RepairOptions{
		Options: wal.Options{Options: postgres.Options{DSN: dsn, Publication: d.name, Slot: d.name, Tables: []string{"public.outbox"}}, SlotAlone: true},
		Reading: backfill.Reading{Read: []tableread.ReadOptions{{Table: "public.outbox", SQL: "public.outbox", Key: "event_id", At: "created_at"}}, ReadDSN: dsn},
	}, slog.New(slog.DiscardHandler))
	defer r.Close(context.WithoutCancel(t.Context()))
	if _, err := r.Lead(t.Context(), none); err != nil {
		t.Fatal(err)
	}
	d.exec("ALTER PUBLICATION " + d.name + " SET (publish = 'insert')")
	if err := r.Finish(t.Context()); cdc.ReasonOf(err) != cdc.PublicationAltered {
		t.Error(err)
	}
}

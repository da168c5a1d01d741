package wal

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/cleanup"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

// A partition is relayed once the slot has passed it. A slot that was advanced or made again does not count where the checkpoint is
// behind, of another history, or cannot be read.
//
//covers:postgres 16 state both
func TestSlotAheadOfCheckpointDropsNothing(t *testing.T) {
	d, role := keeping(t, 3)
	var stored cdc.Checkpoint
	var failed error
	d.load = func(context.Context) (cdc.Checkpoint, bool, error) { return stored, true, failed }
	p := d.parts(role)
	testenv.Must(t, p.TakeOut(t.Context(), conformance.Day(t, p, 3)))
	d.exec("SELECT pg_drop_replication_slot($1)", d.name)
	d.exec("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", d.name)
	here := cdc.Source{SystemID: d.text("SELECT system_identifier::text FROM pg_control_system()"), Database: d.name, Slot: d.name, Timeline: 1}
	other, promoted := here, here
	other.SystemID, promoted.Timeline = "1", 2
	end := cdc.Position(d.text("SELECT pg_current_wal_lsn()::text"))
	for _, tt := range []struct {
		title   string
		source  cdc.Source
		at      cdc.Position
		err     error
		relayed bool
	}{
		{"behind", here, "0/10", nil, false},
		{"of another server", other, end, nil, false},
		{"of another timeline", promoted, end, nil, false},
		{"unreadable", here, end, errors.New("no answer"), false},
		{"passed", here, end, nil, true},
	} {
		stored, failed = cdc.Checkpoint{Source: tt.source, Progress: cdc.Progress{Position: tt.at}}, tt.err
		parts := conformance.List(d.t, d.parts(role))
		switch n := count(parts, func(p cdc.Partition) bool { return p.Relayed }); {
		case n > 0 && !tt.relayed:
			cdctest.Violation(t, cdctest.Unpublished, "checkpoint %s: relayed: %v", tt.title, parts)
		case n != 1 && tt.relayed:
			t.Errorf("checkpoint %s: %v", tt.title, parts)
		}
		o := cleanup.PartitionOptions{Ahead: 20, TTL: 24 * time.Hour}
		if tt.err != nil {
			if err := conformance.Maintain(d.t, d.parts(role), o); err != nil || cleanup.Ahead(conformance.List(d.t, d.parts(role)), time.Now()) != 20 {
				t.Errorf("checkpoint %s: no days were made: %v", tt.title, err)
			}
		}
	}
}

// Bounds are read in UTC whatever the role's settings are. IST is read as Israel's.
//
//covers:postgres 16 state both
func TestBoundsUnderOtherDateSettings(t *testing.T) {
	d, role := keeping(t, 3)
	want := conformance.List(d.t, d.parts(role))
	d.exec("ALTER ROLE " + role + " SET timezone = 'Asia/Kolkata'")
	d.exec("ALTER ROLE " + role + " SET datestyle = 'SQL, DMY'")
	for i, p := range conformance.List(d.t, d.parts(role)) {
		if !p.Since.Equal(want[i].Since) || !p.Until.Equal(want[i].Until) || p.Foreign {
			t.Errorf("%v, want %v", p, want[i])
		}
	}
}

// Where another transaction holds only the partition, the table is not locked any longer: writers do not wait for what it waits for.
//
//covers:postgres 16 state both
func TestTakeOutWaitsForNothingBehindTheTablesLock(t *testing.T) {
	d, role := keeping(t, 3)
	p := d.parts(role)
	part := conformance.Day(t, p, 3)
	for _, held := range []string{part.Name, "cdc_relay.public_outbox_default"} {
		tx := d.holding("LOCK TABLE " + held + " IN ACCESS SHARE MODE")
		for deadline := time.Now().Add(time.Minute); ; {
			since := time.Now()
			err := p.TakeOut(t.Context(), part)
			if !errors.Is(err, cdc.ErrBusy) {
				t.Fatalf("while %s is held: %v", held, err)
			}
			if time.Since(since) < 20*time.Millisecond {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("it waited for %s with the table locked", held)
			}
		}
		testenv.Must(t, tx.Rollback(t.Context()))
	}
}

// Where another table is locked, which a foreign key connects with the outbox, the error says how to find who locks it. A day whose rows a foreign key holds is left, and the others are taken out.
//
//covers:postgres 16 state both
func TestForeignKeysOfThePartitions(t *testing.T) {
	d, role := keeping(t, 3)
	for _, sql := range []string{
		"CREATE TABLE kinds (kind text PRIMARY KEY)", "INSERT INTO kinds VALUES ('Order')", "ALTER TABLE outbox ADD FOREIGN KEY (aggregate_type) REFERENCES kinds",
		"CREATE TABLE receipts (id uuid, at timestamptz, CONSTRAINT receipts_event FOREIGN KEY (id, at) REFERENCES outbox)",
	} {
		d.exec(sql)
	}
	p := d.parts(role)
	tx := d.holding("UPDATE kinds SET kind = kind")
	err := p.Make(t.Context(), time.Now().AddDate(0, 0, 5), false)
	if !errors.Is(err, cdc.ErrBusy) || !strings.Contains(cdc.Explain(err), "Fix: end long transactions on these tables") {
		t.Errorf("while kinds is locked: %v", err)
	}
	testenv.Must(t, tx.Rollback(t.Context()))
	d.insertAt(3, 1, 1)
	d.insertAt(2, 2, 2)
	d.exec("INSERT INTO receipts SELECT event_id, created_at FROM outbox ORDER BY created_at LIMIT 1")
	held := conformance.Day(t, p, 3)
	err = conformance.Maintain(d.t, p, cleanup.PartitionOptions{TTL: time.Hour})
	if !errors.Is(err, cdc.ErrHeld) || !strings.Contains(cdc.Explain(err), "Fix: delete the rows of \"public\".\"receipts\" that refer to old events") {
		t.Errorf("a day that is held: %s", cdc.Explain(err))
	}
	for _, part := range conformance.List(d.t, p) {
		if old := !part.Default && time.Since(part.Until) > time.Hour; old && part.Out == (part.Name == held.Name) {
			t.Errorf("the held day is %s, and %+v", held.Name, part)
		}
	}
}

// holding runs a statement in a transaction of another session, which stays open.
func (d *database) holding(sql string) pgx.Tx {
	d.t.Helper()
	tx, err := d.connect("").Begin(d.t.Context())
	if err == nil {
		_, err = tx.Exec(d.t.Context(), sql)
	}
	testenv.Must(d.t, err)
	return tx
}

// Partitions that neither setup nor the routine made are left alone, and no day is made that they cover.
//
//covers:postgres 16 state both
func TestOthersPartitionsAreLeftAlone(t *testing.T) {
	d, role := keeping(t, 1)
	day := func(n int) string { return time.Now().UTC().AddDate(0, 0, n).Format(time.DateOnly) }
	d.exec("CREATE TABLE public.outbox_week PARTITION OF outbox FOR VALUES FROM ('" + day(2) + "') TO ('" + day(5) + "')")
	d.exec("CREATE TABLE public.outbox_old PARTITION OF outbox FOR VALUES FROM ('" + day(-9) + "') TO ('" + day(-8) + "')")
	d.exec("CREATE TABLE cdc_relay.public_outbox_first PARTITION OF outbox FOR VALUES FROM (MINVALUE) TO ('" + day(-20) + "')")
	d.exec("CREATE TABLE cdc_relay.public_outbox_last PARTITION OF outbox FOR VALUES FROM ('" + day(9) + "') TO (MAXVALUE)")
	p := d.parts(role)
	testenv.Must(t, conformance.Maintain(d.t, p, cleanup.PartitionOptions{Ahead: 12, TTL: 48 * time.Hour}))
	parts := conformance.List(d.t, p)
	if n := count(parts, func(p cdc.Partition) bool { return p.Foreign && !p.Out }); n != 4 || cleanup.Ahead(parts, time.Now()) < 12 {
		t.Errorf("%d are left alone: %v", n, parts)
	}
}

// A table of the name of a day stops neither the taking out of days nor says nothing.
//
//covers:postgres 16 state both
func TestNameInTheWay(t *testing.T) {
	d, role := keeping(t, 3)
	d.exec("CREATE TABLE " + cdctest.PostgresPartition(time.Now().AddDate(0, 0, 4)) + " ()")
	p := d.parts(role)
	err := conformance.Maintain(d.t, p, cleanup.PartitionOptions{Ahead: 5, TTL: 36 * time.Hour})
	if err == nil || !strings.Contains(cdc.Explain(err), "ALTER TABLE ... RENAME TO") {
		t.Errorf("it says %v", err)
	}
	if count(conformance.List(d.t, p), out) == 0 {
		t.Error("nothing was taken out")
	}
}

// The routine copes with what a table may have besides its columns.
//
//covers:postgres 16 state both
func TestPartitionsOfAnExoticTable(t *testing.T) {
	d, role := keeping(t, 3)
	for _, sql := range []string{
		"ALTER TABLE outbox ADD gone int",
		"ALTER TABLE outbox DROP gone",
		"ALTER TABLE outbox ADD topics text GENERATED ALWAYS AS (topic || topic) STORED",
		"CREATE INDEX ON outbox (aggregate_id) WHERE topic IS NOT NULL",
		"CREATE UNIQUE INDEX ON outbox (lower(event_type), created_at, event_id)",
		"CREATE STATISTICS both_types ON aggregate_type, event_type FROM outbox",
		"CREATE TABLE kinds (kind text PRIMARY KEY)",
		"INSERT INTO kinds VALUES ('Order')",
		"ALTER TABLE outbox ADD FOREIGN KEY (aggregate_type) REFERENCES kinds",
		"CREATE TABLE receipts (id uuid, at timestamptz, FOREIGN KEY (id, at) REFERENCES outbox)",
		"CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'",
		"CREATE TRIGGER noting BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION noted()",
		"ALTER TABLE outbox ENABLE ROW LEVEL SECURITY",
		"ALTER TABLE outbox FORCE ROW LEVEL SECURITY",
		"CREATE POLICY none ON outbox FOR SELECT USING (false)",
		"CREATE RULE also AS ON INSERT TO outbox WHERE new.topic = 'never' DO ALSO NOTHING",
		"CREATE PUBLICATION " + d.name + "_leaves FOR TABLE outbox",
	} {
		d.exec(sql)
	}
	if d.text("SELECT current_setting('server_version_num')") >= "170000" {
		d.exec("ALTER TABLE outbox ADD seq bigint GENERATED ALWAYS AS IDENTITY")
	}
	d.insertAt(3, 1, 3)
	d.insertAt(-6, 4, 6)
	r := startConfirming(t, d.source())
	r.Await(6)
	p := d.parts(role)
	testenv.Must(t, conformance.Maintain(d.t, p, cleanup.PartitionOptions{Ahead: 7, TTL: 36 * time.Hour, Drop: true}))
	d.insertAt(-7, 7, 9)
	r.ExpectUpTo(1, 9)
	d.age(49 * time.Hour)
	testenv.Must(t, conformance.Maintain(d.t, p, cleanup.PartitionOptions{Ahead: 7, TTL: 25 * time.Hour, Drop: true}))
	if parts := conformance.List(d.t, p); count(parts, out) != 0 {
		t.Errorf("still there: %v", parts)
	}
}

// The routine of another version, or of an owner that the table no longer has, does not do.
//
//covers:postgres 16 state both
func TestRoutineIsTheTablesAndThisVersions(t *testing.T) {
	d, role := keeping(t, 1)
	may := func() bool {
		t.Helper()
		ok, err := d.open(role).MayMaintain(t.Context(), outboxName())
		testenv.Must(t, err)
		return ok
	}
	if !may() {
		t.Fatal("it may not")
	}
	d.exec("CREATE ROLE " + role + "_new")
	t.Cleanup(func() {
		_, _ = d.conn.Exec(context.WithoutCancel(t.Context()), "DROP OWNED BY "+role+"_new; DROP ROLE "+role+"_new")
	})
	d.exec("ALTER TABLE outbox OWNER TO " + role + "_new")
	if may() {
		t.Error("a former owner's does")
	}
	d.exec("ALTER TABLE outbox OWNER TO CURRENT_USER")
	d.exec("CREATE OR REPLACE FUNCTION " + outbox.PostgresRoutine(outboxName()).SQL() + "(action text, at timestamp) RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT 1::bigint'")
	if may() {
		t.Error("another version's does")
	}
}

// Two tables whose names join alike have partitions and routines of their own. Partitions that an earlier version made for one of them,
// under names that both would have had, stay in use.
//
//covers:postgres 16 state both
func TestTablesWhoseNamesJoinAlike(t *testing.T) {
	d := newDatabase(t)
	role := d.name[:min(len(d.name), 50)] + "_role"
	d.exec("CREATE ROLE " + role + " LOGIN REPLICATION; CREATE SCHEMA app; CREATE SCHEMA app_eu")
	t.Cleanup(func() {
		_, _ = d.conn.Exec(context.WithoutCancel(t.Context()), "DROP OWNED BY "+role+"; DROP ROLE "+role)
	})
	before, after := outbox.Name{Schema: "app_eu", Table: "outbox"}, outbox.Name{Schema: "app", Table: "eu_outbox"}
	setup := func(tables ...outbox.Name) {
		t.Helper()
		o := outbox.SetupOptions{Read: tables, Publication: d.name, Slot: d.name, Role: role, Maintain: tables}
		for _, n := range tables {
			o.Make = append(o.Make, outbox.TableOptions{Name: n, From: time.Now().AddDate(0, 0, -3), Ahead: 3})
		}
		d.setup(o)
	}
	db := d.open(role)
	pass := func(n outbox.Name, ahead int) (parts []cdc.Partition) {
		t.Helper()
		p := db.Partitions(n, outbox.PostgresRoutine(n), d.name, checkpoint.None{}.Load)
		testenv.Must(t, p.Maintainable(t.Context()))
		for _, drop := range []bool{false, true} {
			if err := conformance.Maintain(d.t, p, cleanup.PartitionOptions{Ahead: ahead, TTL: 36 * time.Hour, Drop: drop}); err != nil {
				t.Fatalf("%s: %v", n, err)
			}
			d.exec("CREATE TABLE written (); DROP TABLE written") // the changes before are written by now
			d.exec("SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())", d.name)
		}
		if parts = conformance.List(d.t, p); cleanup.Ahead(parts, time.Now()) != ahead || count(parts, func(p cdc.Partition) bool { return p.Foreign || p.Out && !p.Default }) != 0 {
			t.Errorf("%s: %v", n, parts)
		}
		return parts
	}
	setup(before)
	now, _, _ := strings.Cut(outbox.PostgresRoutine(before).Table, "maintain")
	d.exec(`DO $$ DECLARE name text; BEGIN
		FOR name IN SELECT relname FROM pg_class WHERE relnamespace = 'cdc_relay'::regnamespace AND relkind = 'r' AND starts_with(relname, '` + now + `') LOOP
			EXECUTE format('ALTER TABLE cdc_relay.%I RENAME TO %I', name, replace(name, '` + now + `', 'app_eu_outbox_'));
		END LOOP;
	END $$`)
	pass(before, 2)
	p := db.Partitions(after, outbox.PostgresRoutine(after), d.name, checkpoint.None{}.Load)
	setup(after)
	setup(before, after)
	testenv.Must(t, p.Maintainable(t.Context()))
	for _, n := range []outbox.Name{before, after} {
		if may, err := db.MayMaintain(t.Context(), n); !may || err != nil {
			t.Errorf("%s: %v", n, err)
		}
		d.exec("INSERT INTO " + n.SQL() + " (event_id, aggregate_type, aggregate_id, event_type, occurred_at, created_at) SELECT gen_random_uuid(), 'Order', '1', 'x', now(), now() + day * interval '1 day' FROM generate_series(-1, 9) day")
		parts := pass(n, 5)
		if n := count(parts, func(p cdc.Partition) bool { return p.Default && !p.Out }); n != 1 {
			t.Errorf("%d default partitions", n)
		}
	}
}

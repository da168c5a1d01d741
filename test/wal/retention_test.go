package wal

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

func outboxName() outbox.Name { return outbox.Name{Schema: "public", Table: "outbox"} }

// keeping returns a database whose table has partitions for the last days too, and a role that may maintain them. Its tests run at the same
// time, since a pass pauses between its attempts.
func keeping(t *testing.T, days int) (d *database, role string) {
	t.Helper()
	t.Parallel()
	d = newDatabase(t)
	script := outbox.PostgresTable(outbox.TableOptions{Name: outboxName(), From: time.Now().AddDate(0, 0, -days), Ahead: days})
	for _, st := range script.Up {
		d.exec(st.SQL)
	}
	role = d.name[:min(len(d.name), 50)] + "_role"
	d.exec("CREATE ROLE " + role + " LOGIN REPLICATION")
	d.setup(outbox.SetupOptions{
		Read: []outbox.Name{outboxName()}, Publication: d.name, Slot: d.name, Role: role, Maintain: []outbox.Name{outboxName()},
	})
	t.Cleanup(func() {
		_, _ = d.conn.Exec(context.WithoutCancel(t.Context()), "DROP OWNED BY "+role+"; DROP ROLE "+role)
	})
	return d, role
}

// parts connects as a role to the table's partitions.
func (d *database) parts(role string) *postgres.Partitions {
	d.t.Helper()
	load := d.load
	if load == nil {
		load = checkpoint.None{}.Load
	}
	p := d.open(role).Partitions(outboxName(), outbox.PostgresRoutine(outboxName()), d.name, load)
	testenv.Must(d.t, p.Maintainable(d.t.Context()))
	return p
}

// insertAt inserts the events from..to with a created_at some days ago.
func (d *database) insertAt(days, from, to int) {
	d.t.Helper()
	d.exec(strings.NewReplacer("occurred_at)", "occurred_at, created_at)", "now() FROM", "now(), now() - $3::int * interval '1 day' FROM").Replace(insertRows), from, to, days)
}

func (d *database) text(sql string, args ...any) string {
	d.t.Helper()
	var text string
	if err := d.conn.QueryRow(d.t.Context(), sql, args...).Scan(&text); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
	return text
}

func count(parts []cdc.Partition, is func(cdc.Partition) bool) (n int) {
	for _, p := range parts {
		if is(p) {
			n++
		}
	}
	return n
}

func out(p cdc.Partition) bool { return p.Out }

// The relay publishes the events of partitions that were detached and dropped by hand while it was stopped, from the WAL.
//
//covers:postgres 16 rows both
func TestEventsOfADroppedPartitionArePublished(t *testing.T) {
	d, _ := keeping(t, 2)
	d.insertAt(2, 1, 5)
	day := cdctest.PostgresPartition(time.Now().AddDate(0, 0, -2))
	d.exec("ALTER TABLE outbox DETACH PARTITION " + day)
	d.exec("DROP TABLE " + day)
	d.insert(6, 7)
	start(t, d.source()).ExpectUpTo(1, 7)
}

// A day that cannot be made because the default partition has its rows is made all the same: the default partition is taken
// out as it is, and replaced by an empty one.
//
//covers:postgres 16 state both
func TestRowsInTheDefaultPartitionAreNotMoved(t *testing.T) {
	c := conform(t)
	file := c.text("SELECT pg_relation_filepath('cdc_relay.public_outbox_default')")
	conformance.RowsOfNoDayAreNotMoved(t, c, func(part string) {
		if c.text("SELECT pg_relation_filepath($1)", part) != file {
			t.Errorf("%s was copied", part)
		}
		c.age(49 * time.Hour)
	})
}

// age lets the default partitions that were taken out have been so some time earlier.
func (d *database) age(by time.Duration) {
	d.t.Helper()
	d.exec(fmt.Sprintf(`DO $$ DECLARE part record; BEGIN
		FOR part IN SELECT c.oid::regclass AS name, relname, obj_description(c.oid) AS said FROM pg_class c WHERE relnamespace = 'cdc_relay'::regnamespace AND relname ~ '_default_[0-9]{14}$' LOOP
			EXECUTE format('COMMENT ON TABLE %%s IS %%L', part.name, regexp_replace(regexp_replace(part.said, 'until [^,]*,',
				'until ' || (substring(part.said FROM 'until ([^,]*),')::timestamptz - interval '%d seconds') || ','), '[0-9]+$', pg_current_xact_id()::text));
			EXECUTE format('ALTER TABLE %%s RENAME TO %%I', part.name, left(part.relname, -14) || to_char(to_timestamp(right(part.relname, 14), 'YYYYMMDDHH24MISS') - interval '%[1]d seconds', 'YYYYMMDDHH24MISS'));
		END LOOP;
	END $$`, int(by.Seconds())))
}

// The routine touches partitions of its table and what it took out of it, and nothing else, whatever the relay's role asks.
//
//covers:postgres 16 state both
func TestRoutineTouchesItsTableOnly(t *testing.T) {
	d, role := keeping(t, 3)
	other := time.Now().AddDate(0, 0, -30).UTC()
	victim := cdctest.PostgresPartition(other)
	d.exec("CREATE TABLE " + victim + " (LIKE outbox INCLUDING ALL)") // not ours, in spite of its name
	d.exec("CREATE TABLE precious ()")
	d.insertAt(-40, 1, 5) // in the default partition
	empty := `DO $do$ BEGIN PERFORM ` + strings.TrimPrefix(call("swap", "2100-01-02"), "SELECT ") + `; PERFORM cdc_relay.public_outbox_maintain('drop_default',
		(SELECT to_timestamp(right(relname, 14), 'YYYYMMDDHH24MISS')::timestamp FROM pg_class WHERE relname ~ '_default_[0-9]{14}$')); END $do$`
	dropped := func(at time.Time) string {
		return call("take_out", at.UTC().Format(time.DateOnly)) + "; " + call("drop", at.UTC().Format(time.DateOnly))
	}
	conn := d.connect(role)
	for _, sql := range []string{
		call("drop", other.Format(time.DateOnly)),
		call("take_out", other.Format(time.DateOnly)),
		call("take_out", time.Now().UTC().Format(time.DateOnly)),               // today
		call("drop", time.Now().AddDate(0, 0, -3).UTC().Format(time.DateOnly)), // attached
		call("drop_default", time.Now().UTC().Format(time.DateTime)),           //
		empty,                                 // takes the default partition out and drops it
		dropped(time.Now().AddDate(0, 0, -1)), // ended within the last 24 hours
		call("drop; DROP TABLE precious", "2026-01-02"),        //
		call("drop", "2026-01-02'; DROP TABLE precious; --"),   //
		call("make", "infinity"),                               //
		call("make", time.Now().UTC().Format(time.DateOnly)),   // exists
		"SELECT count(*) FROM cdc_relay.public_outbox_default", // no right of its own
		"CREATE TABLE cdc_relay.mine ()",
		"DROP TABLE precious",
		"ALTER TABLE outbox DETACH PARTITION " + cdctest.PostgresPartition(time.Now()),
		"CREATE OR REPLACE FUNCTION " + outbox.PostgresRoutine(outboxName()).SQL() + "(action text, at timestamp) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'",
	} {
		if _, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err == nil {
			t.Errorf("%s: no error", sql)
		}
		_, _ = conn.Exec(t.Context(), "ROLLBACK")
	}
	// A table of the caller's in pg_temp is not mistaken for a catalog.
	if _, err := conn.Exec(t.Context(), "CREATE TEMP TABLE pg_inherits (inhparent oid, inhrelid oid); INSERT INTO pg_inherits SELECT 'outbox'::regclass, $$"+victim+"$$::regclass; "+call("take_out", other.Format(time.DateOnly)), pgx.QueryExecModeSimpleProtocol); err == nil {
		t.Error("a temporary table replaced a catalog")
	}
	if got := d.text("SELECT (to_regclass($1) IS NOT NULL AND to_regclass('precious') IS NOT NULL)::text", victim); got != "true" {
		t.Error("a table is gone")
	}
	if n := d.text("SELECT count(*)::text FROM outbox"); n != "5" {
		cdctest.Violation(t, cdctest.Unpublished, "%s of 5 rows are left", n)
	}
}

func call(action, at string) string {
	return fmt.Sprintf("SELECT %s($q$%s$q$, $q$%s$q$)", outbox.PostgresRoutine(outboxName()).SQL(), action, at)
}

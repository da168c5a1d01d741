package wal

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/wal"
)

// written runs statements, in which & is the name of publication and slot, and "+ TABLE" inserts the next event into a table.
func (d *database) written(statements string) (events int) {
	d.t.Helper()
	for sql := range strings.SplitSeq(statements, "; ") {
		table, insert := strings.CutPrefix(sql, "+ ")
		if insert {
			events++
			sql = strings.Replace(strings.NewReplacer("$1::int", strconv.Itoa(events), "$2::int", strconv.Itoa(events)).Replace(insertRows), "outbox", table, 1)
		}
		d.exec(strings.ReplaceAll(sql, "&", d.name))
	}
	return events
}

// Statements of the tests below.
const (
	newSlot   = "SELECT pg_drop_replication_slot('&'); SELECT pg_create_logical_replication_slot('&', 'pgoutput'); "
	allTables = "DROP PUBLICATION &; CREATE PUBLICATION & FOR ALL TABLES WITH (publish = 'insert', publish_via_partition_root = true); " + newSlot
	again     = "CREATE TABLE outbox (LIKE spare INCLUDING ALL); ALTER PUBLICATION & ADD TABLE outbox; "
	flat      = "DROP TABLE outbox; " + again + newSlot
)

// A row belongs to a configured table by its OID, whatever name the table had when the row was written; PostgreSQL does not send the
// name of a partitioned table again after a rename. A row that was written under the configured name is published too, if its table
// has another name now or is dropped. The slot is the only position here, so nothing else tells that a table was replaced.
//
//covers:postgres 14 rows both
func TestRenamedTableIsPublished(t *testing.T) {
	for name, statements := range map[string]string{
		"renamed and back":               "ALTER TABLE outbox RENAME TO x; + x; ALTER TABLE x RENAME TO outbox; + outbox",
		"renamed and back as flat table": flat + "ALTER TABLE outbox RENAME TO x; + x; ALTER TABLE x RENAME TO outbox; + outbox",
		"moved to a schema and back":     "CREATE SCHEMA s; ALTER TABLE outbox SET SCHEMA s; + s.outbox; ALTER TABLE s.outbox SET SCHEMA public; + outbox",
		"schema renamed and back":        "ALTER SCHEMA public RENAME TO s; + s.outbox; ALTER SCHEMA s RENAME TO public; + outbox",
		"replaced":                       "+ outbox; ALTER TABLE outbox RENAME TO x; " + again + "+ outbox",
		"dropped and made again":         "+ outbox; DROP TABLE outbox; " + again + "+ outbox",
		"renamed and dropped":            "+ outbox; ALTER TABLE outbox RENAME TO x; DROP TABLE x; " + again + "+ outbox",
		"another one in its place":       allTables + "+ outbox; ALTER TABLE outbox RENAME TO x; + spare; ALTER TABLE spare RENAME TO outbox; + outbox",
		"names exchanged and back":       allTables + "ALTER TABLE outbox RENAME TO x; ALTER TABLE spare RENAME TO outbox; + x; + outbox; ALTER TABLE outbox RENAME TO spare; ALTER TABLE x RENAME TO outbox; + outbox",
	} {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t)
			d.exec("CREATE TABLE spare (LIKE outbox INCLUDING ALL)")
			n := d.written(statements)
			q := newQueue(t)
			tailing(t, d.source(), q)
			q.waitCount(t, n)
			q.holds(t, 1, n)
		})
	}
}

// The new name of a table can be configured: rows that were written under the old one are published.
func TestRenamedTableUnderItsNewName(t *testing.T) {
	d := newDatabase(t)
	n := d.written("+ outbox; ALTER TABLE outbox RENAME TO x; + x")
	q := newQueue(t)
	tailing(t, d.sourceWith(wal.Options{Options: postgres.Options{Tables: []string{"public.x"}}}), q)
	q.waitCount(t, n)
	q.holds(t, 1, n)
}

// Rows of a table that is not configured are left out, also if it has the columns of an outbox and is dropped: backups of the outbox, and
// what pg_repack fills, are such tables.
//
//covers:postgres 14 rows both
func TestRowsOfDroppedTable(t *testing.T) {
	d := newDatabase(t)
	d.written(allTables + "+ outbox; CREATE TABLE gone (LIKE outbox INCLUDING ALL); + gone; DROP TABLE gone; + outbox")
	q := newQueue(t)
	tailing(t, d.source(), q)
	q.waitFor(t, "the last event", func(p []string) bool { return slices.Contains(p, "3") })
	if got, want := q.held(), []string{"1", "3"}; !slices.Equal(got, want) {
		cdctest.Violation(t, cdctest.Difference(got, want), "got %v, want %v", got, want)
	}
}

package wal

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
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
		"another one in its place":       allTables + "+ outbox; ALTER TABLE outbox RENAME TO x; + spare; ALTER TABLE spare RENAME TO outbox; + outbox",
		"names exchanged and back":       allTables + "ALTER TABLE outbox RENAME TO x; ALTER TABLE spare RENAME TO outbox; + x; + outbox; ALTER TABLE outbox RENAME TO spare; ALTER TABLE x RENAME TO outbox; + outbox",
	} {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t)
			d.exec("CREATE TABLE spare (LIKE outbox INCLUDING ALL)")
			n := d.written(statements)
			start(t, d.source()).ExpectUpTo(1, n)
		})
	}
}

// The new name of a table can be configured: rows that were written under the old one are published.
func TestRenamedTableUnderItsNewName(t *testing.T) {
	d := newDatabase(t)
	n := d.written("+ outbox; ALTER TABLE outbox RENAME TO x; + x")
	start(t, d.sourceWith(wal.Options{Options: postgres.Options{Tables: []string{"public.x"}}})).ExpectUpTo(1, n)
}

// A row of a table that is none of ours is left out because the catalog has that table, or because an outbox has other columns. If the
// table was dropped, and had the columns of an outbox, the relay stops before the row, and goes on in both of the ways that the fix names.
//
//covers:postgres 14 rows both
func TestRowsOfDroppedTable(t *testing.T) {
	const like, scratch = "+ outbox; CREATE TABLE gone (LIKE spare INCLUDING ALL); + gone; DROP TABLE gone; ", "CREATE TABLE gone (n int); INSERT INTO gone VALUES (1); "
	for name, tt := range map[string]struct {
		statements string
		fix        string // "": the relay does not stop
		tables     []string
		want       []int
	}{
		"in the catalog":         {"+ outbox; " + scratch + "+ outbox", "", nil, []int{1, 2}},
		"other columns":          {"+ outbox; " + scratch + "DROP TABLE gone; + outbox", "", nil, []int{1, 2}},
		"made again":             {like + scratch + "+ outbox", "", nil, []int{1, 3}},
		"its rows are no events": {like + "+ outbox", `CREATE TABLE "public"."gone" ()`, nil, []int{1, 3}},
		"a type that is gone":    {"+ outbox; CREATE DOMAIN body AS bytea; CREATE TABLE gone (LIKE spare INCLUDING ALL); ALTER TABLE gone ALTER payload TYPE body; + gone; DROP TABLE gone; DROP DOMAIN body; + outbox", `CREATE TABLE "public"."gone" ()`, nil, []int{1, 3}},
		"its rows are events":    {like + "+ outbox", `CREATE TABLE "public"."gone" (LIKE "public"."outbox")`, []string{"public.outbox", "public.gone"}, []int{1, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t)
			d.exec("CREATE TABLE spare (LIKE outbox INCLUDING ALL)")
			d.written(allTables + tt.statements)
			o := wal.Options{Verify: func(t *cdc.Table) error {
				if i := t.Index("payload"); i < 0 || t.Columns[i].Form == cdc.FormOpaque { // as the router does
					return errors.New("no outbox")
				}
				return nil
			}}
			if tt.fix != "" {
				err := start(t, d.sourceWith(o)).EndedBehind(1)
				if cdc.ReasonOf(err) != "dropped_table" || !strings.Contains(cdc.Fix(err), tt.fix) {
					t.Fatalf("ended with %v, fix %q", err, cdc.Fix(err))
				}
				d.exec(tt.fix)
			}
			o.Tables = tt.tables
			start(t, d.sourceWith(o)).Expect(tt.want...)
		})
	}
}

package wal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/internal/wal"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

// texts lists the values of b's rows as text, which has the same columns in whatever form. Opaque columns have none.
func texts(t *testing.T, b *cdc.Batch) (rows []string) {
	t.Helper()
	for row := range b.Rows() {
		var text []byte
		for i, c := range b.Table.Columns {
			raw, ok := b.Value(row, i)
			text = fmt.Appendf(text, "%s %d %t ", c.Name, c.Type, ok)
			if ok && c.Form != cdc.FormOpaque {
				var err error
				if text, err = c.Form.AppendText(text, raw); err != nil {
					t.Error(err)
				}
			}
			text = append(text, '\n')
		}
		rows = append(rows, string(text))
	}
	return rows
}

// needed returns the lines of those columns that are needed.
func (d *database) needed(row string) (lines []string) {
	for line := range strings.Lines(row) {
		if column, _, _ := strings.Cut(line, " "); d.needs == nil || d.needs("public.outbox", column) {
			lines = append(lines, line)
		}
	}
	return lines
}

// reader opens the table outbox to read it by SQL.
func (d *database) reader(o postgres.ReadOptions) *postgres.TableReader {
	d.t.Helper()
	if o.Table == "" {
		o.Table, o.SQL, o.Key, o.At = "public.outbox", "public.outbox", "event_id", "created_at"
	}
	r, err := postgres.OpenTable(d.t.Context(), postgres.Options{DSN: func(context.Context) (string, error) { return server.DSN(d.name, ""), nil }, Needs: d.needs}, o)
	testenv.Must(d.t, err)
	d.t.Cleanup(func() { r.Close(context.WithoutCancel(d.t.Context())) })
	return r
}

// cellQueue keeps the cells of all batches, and their texts.
type cellQueue struct {
	*conformance.Queue
	rows, texts []string
}

func newCellQueue(t *testing.T) *cellQueue {
	t.Helper()
	q := &cellQueue{Queue: newQueue(t)}
	q.Each = func(b *cdc.Batch) {
		q.rows, q.texts = append(q.rows, conformance.Cells(b)...), append(q.texts, texts(t, b)...)
	}
	return q
}

// walTypes are columns with two values each, of types with a binary form and of others.
func walTypes() map[string][][3]string {
	binary := [][3]string{
		{"b", "boolean", "true|false"},
		{"raw", "bytea", `'\x00ff41'|''`},
		{"n", "name", "'name'|'größe'"},
		{"i2", "int2", "-7|32767"},
		{"i4", "int4", "2147483647|-1"},
		{"i8", "int8", "-9223372036854775808|0"},
		{"t", "text", "'grüße 🚀'|''"},
		{"v", "varchar(9)", "'v'|NULL"},
		{"c", "char(5)", "'ab'|'abcde'"},
		{"j", "json", `'{"b":1,  "a":2}'|'null'`},
		{"jb", "jsonb", `'{"b":1,"a":"\u00e4"}'|'[1.50]'`},
		{"ts", "timestamp", "'2026-01-02 03:04:05.123456'|'infinity'"},
		{"tz", "timestamptz", "'2026-01-02 05:04:05.060+02'|'0001-01-01 00:00:00+00'"},
		{"u", "uuid", "'0198c0de-0000-7000-8000-00000000002a'|'00000000-0000-0000-0000-000000000000'"},
		{"e", "mood", "'happy'|'sad'"},
		{"ci", "citext", "'Größe'|''"},
		{"dt", "moment", "'2026-01-02 05:04:05+02'|NULL"},
		{"draw", "twice", `'\x00ff41'|''`},
		{"db", "yes", "true|NULL"},
		{"de", "good", "'happy'|NULL"},
		{"gone", "int", "1|2"},
		{"added", "text DEFAULT 'x'", "DEFAULT|NULL"},
	}
	text := slices.Concat(binary, [][3]string{
		{"num", "numeric(20,5)", "-123.45|'NaN'"},
		{"f4", "float4", "0.1|1e20"},
		{"f8", "float8", "3.141592653589793|'-infinity'"},
		{"d", "date", "'2026-01-02'|'infinity'"},
		{"ti", "time", "'03:04:05.5'|'24:00'"},
		{"tt", "timetz", "'03:04:05+02'|'03:04:05-08'"},
		{"iv", "interval", "'1 mon -2 days 03:04:05'|'-1 year'"},
		{"arr", "int[]", "'{1,NULL,3}'|'{}'"},
		{"es", "mood[]", "'{happy}'|'{}'"},
		{"ch", "\"char\"", "'x'|''"},
		{"acl", "aclitem", "'=r/postgres'|NULL"},
		{"bits", "bit(3)", "B'101'|B'000'"},
		{"vb", "varbit", "B'1'|B''"},
		{"ip", "inet", "'192.0.2.1/24'|'::1'"},
		{"x", "xml", "'<a>ü</a>'|NULL"},
		{"m", "money", "'12.50'|'-1'"},
		{"pt", "point", "'(1,2.5)'|NULL"},
		{"r", "int4range", "'[1,5)'|'empty'"},
		{"dom", "price", "1.50|2"},
		{"comp", "pair", "'(1,x)'|NULL"},
	})
	return map[string][][3]string{"binary": binary, "text": text, "unneeded": text}
}

// A row that is read by SQL has the same cells, in the same forms, as the same row from the WAL. Columns that nobody needs leave the stream
// binary, and the others have the same values in a binary stream as in text.
func TestRowsReadBySQLAreThoseOfTheWAL(t *testing.T) {
	for name, columns := range walTypes() {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t)
			d.exec(`DROP TABLE outbox CASCADE`)
			d.exec(`CREATE TYPE mood AS ENUM ('sad', 'happy')`)
			d.exec(`CREATE EXTENSION citext`)
			for _, domain := range []string{"price AS numeric(9,2)", "moment AS timestamptz", "raw AS bytea", "twice AS raw", "yes AS boolean", "good AS mood"} {
				d.exec("CREATE DOMAIN " + domain)
			}
			d.exec(`CREATE TYPE pair AS (a int, b text)`)
			ddl, names, values := []string{"row_id bigint PRIMARY KEY", "at timestamp NOT NULL", "payload bytea DEFAULT ''", "doubled bigint GENERATED ALWAYS AS (row_id * 2) STORED"}, []string{"row_id", "at"}, [2][]string{{"1", "'2026-01-02'"}, {"2", "'2026-01-02'"}}
			for _, c := range columns {
				first, second, _ := strings.Cut(c[2], "|")
				ddl, names = append(ddl, c[0]+" "+c[1]), append(names, c[0])
				values[0], values[1] = append(values[0], first), append(values[1], second)
			}
			d.exec("CREATE TABLE outbox (" + strings.Join(ddl, ", ") + ")")
			d.exec("ALTER TABLE outbox DROP COLUMN gone")
			d.exec(fmt.Sprintf("ALTER PUBLICATION %s ADD TABLE outbox", d.name))
			names, values[0], values[1] = without(names, "gone", names), without(values[0], "gone", names), without(values[1], "gone", names)
			if name == "unneeded" {
				d.needs = func(table, column string) bool {
					return slices.ContainsFunc(walTypes()["binary"], func(c [3]string) bool { return c[0] == column }) || table != "public.outbox"
				}
			}
			other := d.name + "_text"
			d.exec("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", other)
			defer d.exec("SELECT pg_drop_replication_slot($1)", other)
			q, inText := newCellQueue(t), newCellQueue(t)
			stream := conformance.Start(t, d.source(), q.Queue, none)
			textStream := conformance.Start(t, d.sourceWith(wal.Options{Options: postgres.Options{Slot: other}, Text: true}), inText.Queue, none)
			for _, v := range values {
				d.exec("INSERT INTO outbox (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(v, ", ") + ")")
			}
			d.exec("INSERT INTO outbox (row_id, at) VALUES (3, '2026-01-02')")
			stream.Await(3)
			textStream.Await(3)
			testenv.Must(t, errors.Join(stream.Stop(), textStream.Stop()))
			if binary := strings.Contains(q.rows[0], fmt.Sprintf("payload %d ", cdc.FormBytes)); binary != (name != "text") {
				t.Errorf("the stream is binary: %t", binary)
			}
			for i := range q.texts {
				equal(t, d.needed(q.texts[i]), d.needed(inText.texts[i]))
			}
			conformance.SameCells(t, d.reader(postgres.ReadOptions{Table: "public.outbox", SQL: "public.outbox", Key: "row_id", At: "at"}), q.rows)
		})
	}
}

// without returns list without the one at the place of name in names.
func without(list []string, name string, names []string) (kept []string) {
	for i := range list {
		if names[i] != name {
			kept = append(kept, list[i])
		}
	}
	return kept
}

// Keys are in the order of the columns' types and none is left out at a limit, also where texts have another order, and where no date
// of Go or RFC 3339 has the time. What was taken out may have such times too.
func TestKeysAreInTheOrderOfTheirTypes(t *testing.T) {
	for _, kind := range []string{"timestamptz", "timestamp", "date", "recent"} {
		t.Run(kind, func(t *testing.T) {
			d := newDatabase(t)
			d.exec("CREATE DOMAIN moment AS timestamptz")
			d.exec("CREATE DOMAIN recent AS moment")
			d.exec("CREATE TABLE jobs (id bigint PRIMARY KEY, at " + kind + " NOT NULL)")
			d.exec("CREATE TABLE out (LIKE jobs)")
			d.exec("INSERT INTO jobs SELECT i, '2026-01-02 00:00:00Z' FROM generate_series(8, 12) i")
			d.exec("INSERT INTO jobs VALUES (4, 'infinity'), (3, '9999-12-31 00:00:00Z'), (2, '10000-01-01 00:00:00Z'), (1, '2026-01-03 00:00:00.5Z')")
			d.exec("INSERT INTO out VALUES (7, '-infinity'), (6, '4713-01-01 00:00:00 BC'), (5, '0001-01-01'), (13, '294276-12-31 00:00:00Z'), (14, 'infinity')")
			o := postgres.ReadOptions{Table: "public.jobs", SQL: "public.jobs", Key: "id", At: "at", TakenOut: "SELECT 'public.out'"}
			r := d.reader(o)
			var got []string
			for after := (tableread.Key{}); ; {
				keys, err := r.Keys(t.Context(), tableread.Filter{}, tableread.Window{}, after, 3)
				testenv.Must(t, err)
				for _, key := range keys {
					got, after = append(got, key.ID), key
				}
				if len(keys) < 3 {
					break
				}
			}
			const want = "7 6 5 8 9 10 11 12 1 3 2 13 4 14"
			equal(t, got, strings.Fields(want))
			for _, o.Snapshot = range []string{"", d.exportSnapshot()} {
				rows, err := conformance.Column(t, d.reader(o), tableread.Filter{}, "id")
				if err != nil || rows != want {
					t.Errorf("rows %s, %v; want %s", rows, err, want)
				}
			}
		})
	}
}

func TestOrderOfRows(t *testing.T) {
	const untimed = "CREATE TABLE jobs (id int PRIMARY KEY, at bigint, n int)"
	counted, at := tableread.ReadOptions{At: "at", Counted: true}, tableread.ReadOptions{At: "at"}
	all, since := tableread.Filter{IDs: []string{"1", "2", "3"}}, tableread.Filter{IDs: []string{"1"}, From: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	conformance.OrderOfRows(t, conform(t), map[string]conformance.Ordered{
		"a serial ID":               {DDL: "CREATE TABLE jobs (id bigserial PRIMARY KEY, at timestamptz, n int)", At: true, By: "id", Want: "1 2 3", Options: counted},
		"another serial":            {DDL: "CREATE TABLE jobs (id int PRIMARY KEY DEFAULT random() * 1e9, at timestamptz, seq bigserial, n int)", At: true, By: "seq", Want: "1 2 3", Options: counted},
		"an identity":               {DDL: "CREATE TABLE jobs (id int PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY, n int)", By: "id", Want: "1 2 3", Options: tableread.ReadOptions{Counted: true}},
		"named":                     {DDL: "CREATE TABLE jobs (id bigserial PRIMARY KEY, at timestamptz, n int)", At: true, By: "at", Want: "3 2 1", Options: tableread.ReadOptions{OrderBy: "at", Counted: true}},
		"a serial by blocks":        {DDL: "CREATE TABLE jobs (id int PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY (CACHE 20), at timestamptz NOT NULL, n int)", ID: true, At: true, By: "at", Want: "3 2 1", Options: counted},
		"of the native table":       {DDL: "CREATE TABLE jobs (id bigserial PRIMARY KEY, at timestamptz NOT NULL, n int)", At: true, By: "at", Want: "3 2 1", Options: at},
		"of the native table, IDs":  {DDL: "CREATE TABLE jobs (id bigserial PRIMARY KEY, at timestamptz NOT NULL, n int)", At: true, By: "at", Want: "3 2 1", Options: at, Filter: all},
		"by ID alone":               {DDL: untimed, ID: true, Reason: "no_order", Options: tableread.ReadOptions{Counted: true}},
		"by ID alone, since a time": {DDL: untimed, ID: true, Reason: "no_time", Options: tableread.ReadOptions{Counted: true}, Filter: since},
		"by ID alone, IDs":          {DDL: untimed, ID: true, Want: "1 2 3", Options: tableread.ReadOptions{Counted: true}, Filter: all},
		"named, chosen by their ID": {DDL: "CREATE TABLE jobs (id bigserial PRIMARY KEY, at timestamptz, n int)", At: true, By: "at", Want: "1 2 3", Options: tableread.ReadOptions{OrderBy: "at", Counted: true}, Filter: all},
	})
}

// A table without an ID or an order, and rows that may not be read or have no place in the order, are refused with the fix. What is not
// selected does not matter.
func TestTableThatCannotBeReadBySQL(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE jobs (id int PRIMARY KEY, at timestamptz, body text)")
	d.exec("INSERT INTO jobs VALUES (1, NULL, ''), (2, now(), 'new')")
	d.exec("CREATE TABLE tasks (id int, at timestamptz)")
	d.exec("INSERT INTO tasks VALUES (NULL, now())")
	d.exec("CREATE ROLE reads_nothing LOGIN")
	jobs := postgres.ReadOptions{Table: "public.jobs", SQL: "public.jobs", Key: "id", At: "at"}
	text, named, none := jobs, jobs, jobs
	text.At, named.OrderBy, none.Key = "body", "seq", "event_id"
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		o            postgres.ReadOptions
		f            tableread.Filter
		role, reason string
	}{
		"no table":                {o: postgres.ReadOptions{Table: "public.none", SQL: "public.none", Key: "id", At: "at"}, reason: "table_missing"},
		"no ID":                   {o: none, reason: "no_id"},
		"text":                    {o: text, reason: "no_order"},
		"no column":               {o: named, reason: "no_order"},
		"NULL":                    {o: jobs, reason: "no_place"},
		"NULL, and a time":        {o: jobs, f: tableread.Filter{From: since}, reason: "no_place"},
		"NULL in another row":     {o: jobs, f: tableread.Filter{Where: "body = 'new'"}},
		"NULL, an ID":             {o: jobs, f: tableread.Filter{IDs: []string{"1"}}},
		"NULL, an ID, and a time": {o: jobs, f: tableread.Filter{IDs: []string{"1"}, From: since}, reason: "no_place"},
		"NULL ID":                 {o: postgres.ReadOptions{Table: "public.tasks", SQL: "public.tasks", Key: "id", At: "at"}, reason: "no_place"},
		"NULL ID, in another row": {o: postgres.ReadOptions{Table: "public.tasks", SQL: "public.tasks", Key: "id", At: "at"}, f: tableread.Filter{IDs: []string{"1"}}},
		"no rights":               {o: jobs, role: "reads_nothing", reason: "no_privilege"},
	} {
		r, err := postgres.OpenTable(t.Context(), postgres.Options{DSN: func(context.Context) (string, error) { return server.DSN(d.name, c.role), nil }}, c.o)
		if err == nil {
			var got string
			got, err = conformance.Column(t, r, c.f, "id")
			if want := strings.Join(c.f.IDs, " "); err == nil && c.f.Where == "" && c.o.Table == jobs.Table && got != want {
				t.Errorf("%s: rows %s, want %s", name, got, want)
			}
			r.Close(t.Context())
		}
		if cdc.ReasonOf(err) != c.reason || c.reason != "" && cdc.Fix(err) == "" {
			t.Errorf("%s: %v, want %q", name, err, c.reason)
		}
	}
	d.insert(1, 1)
	_, err := d.reader(postgres.ReadOptions{}).Count(t.Context(), tableread.Filter{IDs: []string{"4711"}})
	if cdc.ReasonOf(err) != "bad_id" {
		t.Errorf("an ID that is none: %v", err)
	}
}

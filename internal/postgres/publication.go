package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// PublicationState is what the publication says of the tracked tables at one moment.
type PublicationState struct {
	// Fingerprint is nil where there is no such publication.
	Fingerprint Fingerprint
	// Oids are the names of the tracked tables by OID.
	Oids map[uint32]string
	// Types are those of the tracked tables' columns.
	Types Types
	// Text is whether a needed column of a tracked table has no binary form that is known.
	Text bool
	// Problem is a sentence when the publication does not deliver every insert of every tracked table, Moves one when it may deliver one
	// again, because an UPDATE moves its row to another partition.
	Problem, Moves error
	// LargeObject is a needed column of type oid; "": there is none.
	LargeObject string
	// Lacking are the tables with a needed column that the publication cannot have, because it is generated.
	Lacking []string
	// Detaching is the SQL that ends a DETACH CONCURRENTLY of a partition of a tracked table; "": there is none.
	Detaching string
}

type publishedTable struct {
	OID         uint32 `json:"oid"`
	Name        string `json:"name"`
	Kind        string `json:"kind"`
	Persistence string `json:"persistence"`
	Published   bool   `json:"published"`
	Filter      bool   `json:"filter"`
	Rows        string `json:"rows"` // oid and xmin of what publishes it
	// As is the table that it is a partition of and as whose its rows are published; "" where they are its own.
	As      string `json:"as"`
	Columns []catalogColumn
	// Keys are the columns of partition keys that an UPDATE may change.
	Keys []string
	// Child is a table that inherits from it and is no partition; "" if there is none.
	Child string `json:"child"`
	// Detaching is the SQL that ends a DETACH CONCURRENTLY of one of its partitions; "" if there is none.
	Detaching string `json:"detaching"`
	// Unlogged is one of its partitions, in SQL, whose rows never reach the WAL; "" if there is none.
	Unlogged string `json:"unlogged"`
}

// publicationQuery returns the publication and, for each tracked table, how it stands in it. Columns
// that came with 15 (row filters, column lists, schemas) are read through to_jsonb. It is asked every second: the condition on relname alone,
// which holds for whatever follows a dot of the name, has an index.
const publicationQuery = `
SELECT to_jsonb(p) || jsonb_build_object('xmin', p.xmin::text),
  COALESCE((SELECT jsonb_agg(jsonb_build_object(
      'oid', c.oid::bigint, 'name', n.nspname || '.' || c.relname, 'kind', c.relkind, 'persistence', c.relpersistence,
      'as', %[2]s, 'child', %[3]s, 'detaching', %[4]s, 'keys', %[5]s, 'unlogged', %[6]s, 'published', (p.puballtables OR pr.oid IS NOT NULL) AND (to_jsonb(pr) ->> 'prexcept') IS DISTINCT FROM 'true' OR pn.row IS NOT NULL,
      'filter', to_jsonb(pr) ->> 'prqual' IS NOT NULL,
      'rows', concat_ws(' ', pr.oid, pr.xmin, pn.row),
      'columns', (SELECT jsonb_agg(jsonb_build_object('name', a.attname, 'type', a.atttypid::bigint, 'sender', ` + senderOfColumn + `,
          'omitted', NOT NULLIF(to_jsonb(pr) -> 'prattrs', 'null') @> to_jsonb(a.attnum), 'generated', NOT ` + publishable + `) ORDER BY a.attnum)
        FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)))
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_publication_rel pr ON pr.prpubid = p.oid AND pr.prrelid = c.oid
    LEFT JOIN LATERAL (%[1]s) pn ON true
    WHERE n.nspname || '.' || c.relname = ANY($2)
      AND c.relname = ANY(ARRAY(SELECT substr(q, i + 1)::name FROM unnest($2::text[]) q, generate_series(1, length(q)) i WHERE substr(q, i, 1) = '.'))), '[]')
FROM pg_publication p WHERE p.pubname = $1`

// publishedAs is the topmost table that c is a partition of and that the publication holds, where rows are published
// as that table's.
const publishedAs = `CASE WHEN p.pubviaroot THEN (
        SELECT an.nspname || '.' || ac.relname FROM pg_partition_ancestors(c.oid) WITH ORDINALITY a(oid, height)
        JOIN pg_class ac ON ac.oid = a.oid JOIN pg_namespace an ON an.oid = ac.relnamespace
        WHERE a.oid <> c.oid AND (p.puballtables%s
          OR EXISTS (SELECT FROM pg_publication_rel ar WHERE ar.prpubid = p.oid AND ar.prrelid = a.oid))
        ORDER BY a.height DESC LIMIT 1) END`

// inheritor is a table that inherits from c, which is not partitioned.
const inheritor = `CASE WHEN c.relkind = 'r' THEN (
        SELECT format('%I.%I', hn.nspname, h.relname) FROM pg_inherits JOIN pg_class h ON h.oid = inhrelid
        JOIN pg_namespace hn ON hn.oid = h.relnamespace WHERE inhparent = c.oid ORDER BY 1 LIMIT 1) END`

// detaching is the SQL that ends a DETACH CONCURRENTLY of a partition of c.
const detaching = `(SELECT format('ALTER TABLE %I.%I DETACH PARTITION %I.%I FINALIZE', n.nspname, c.relname, hn.nspname, h.relname)
        FROM pg_inherits JOIN pg_class h ON h.oid = inhrelid JOIN pg_namespace hn ON hn.oid = h.relnamespace
        WHERE inhparent = c.oid AND inhdetachpending)`

// unlogged is a partition of c that is not logged, or that is a foreign table. OFFSET 0 has each partition looked up by its OID: such
// tables are rare, and the planner would look for them among all.
const unlogged = `(SELECT format('%I.%I', hn.nspname, h.relname) FROM pg_partition_tree(c.oid) CROSS JOIN LATERAL (SELECT * FROM pg_class WHERE oid = relid OFFSET 0) h
        JOIN pg_namespace hn ON hn.oid = h.relnamespace
        WHERE relid <> c.oid AND isleaf AND (h.relpersistence <> 'p' OR h.relkind = 'f') ORDER BY 1 LIMIT 1)`

// changingKeys are the columns of the partition keys of c and of its partitions, also those in expressions. An identity, and a time that is
// never NULL, are taken for what the INSERT sets.
const changingKeys = `CASE WHEN c.relkind = 'p' THEN (SELECT jsonb_agg(DISTINCT ka.attname) FROM pg_partition_tree(c.oid) kt
        JOIN pg_depend kd ON kd.objid = kt.relid AND kd.refobjid = kt.relid AND kd.objsubid > 0 AND kd.refobjsubid = 0
          AND kd.classid = 'pg_class'::regclass AND kd.refclassid = kd.classid AND kd.deptype = 'i'
        JOIN pg_attribute ka ON ka.attrelid = kd.objid AND ka.attnum = kd.objsubid JOIN pg_type t ON t.oid = ka.atttypid
        WHERE ka.attidentity = '' AND NOT (ka.attnotnull AND ` + timeType + ` IS NOT NULL)) END`

const (
	asOfSchemaSince15 = ` OR EXISTS (SELECT FROM pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid = an.oid)`

	schemasSince15 = `SELECT concat_ws(' ', s.oid, s.xmin) AS row FROM pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid = n.oid`
	noSchemas      = `SELECT NULL::text AS row`
)

// ReadPublication reads the publication of a server of that version, and how the tables stand in it.
func ReadPublication(ctx context.Context, conn *pgx.Conn, o Options, version int) (PublicationState, error) {
	name := o.Publication
	schemas, asOfSchema := noSchemas, ""
	if version >= 150000 {
		schemas, asOfSchema = schemasSince15, asOfSchemaSince15
	}
	var pub struct {
		OID       json.RawMessage `json:"oid"`
		XMin      string          `json:"xmin"`
		PubInsert bool            `json:"pubinsert"`
		ViaRoot   bool            `json:"pubviaroot"`
	}
	var doc, list []byte
	err := conn.QueryRow(ctx, fmt.Sprintf(publicationQuery, schemas, fmt.Sprintf(publishedAs, asOfSchema), inheritor, detaching, changingKeys, unlogged), name, o.Tables).Scan(&doc, &list)
	if errors.Is(err, pgx.ErrNoRows) {
		return PublicationState{Problem: missingPublication(name)}, nil
	}
	var found []publishedTable
	if err := cmp.Or(err, json.Unmarshal(doc, &pub), json.Unmarshal(list, &found)); err != nil {
		return PublicationState{}, fmt.Errorf("read publication %s: %w", name, err)
	}
	st := PublicationState{
		Fingerprint: Fingerprint{ofPublication: fmt.Sprintf("%s %s", pub.OID, pub.XMin)},
		Oids:        make(map[uint32]string, len(found)),
		Types:       Types{},
		Problem:     publicationProblem(o, found, pub.PubInsert, pub.ViaRoot),
	}
	for i := range found {
		t := &found[i]
		st.Oids[t.OID] = t.Name
		st.Detaching = cmp.Or(st.Detaching, t.Detaching)
		// A column that the event is made of does not change.
		if i := slices.IndexFunc(t.Keys, func(key string) bool { return !o.Needed(t.Name, key) }); i >= 0 && st.Moves == nil {
			st.Moves = moves(t.Name, t.Keys[i])
		}
		st.Fingerprint[t.Name] = fmt.Sprintf("%d %s", t.OID, t.Rows)
		if t.As != "" { // its rows are published as those of another table
			st.Fingerprint[t.Name] += " " + t.As
		}
		for _, c := range t.Columns {
			if c.Type == pgtype.OIDOID && o.Needed(t.Name, c.Name) {
				st.LargeObject = t.Name + "." + c.Name
			}
			if c.Generated && o.Needs != nil && o.Needs(t.Name, c.Name) {
				st.Lacking = append(st.Lacking, t.Name)
			}
		}
		st.Text = needText(o, t.Name, t.Columns, st.Types) || st.Text
	}
	return st, nil
}

// unsent follows a fix: PostgreSQL decodes the WAL with the publication of its time, so what was written until now is not sent afterwards either.
const unsent = "; if a relay has run before, then publish what was not sent with `cdc-relay repair --since TIME`"

func notLogged(table, quoted, kind string) error {
	fix := "run `ALTER TABLE " + quoted + " SET LOGGED`"
	if kind == "p" { // SET LOGGED changes nothing
		fix = "make the table anew without UNLOGGED, with its rows"
	}
	return cdc.ConfigError(UnfitTable, fix+unsent, "table %s is not logged, so its rows never reach the WAL", table)
}

func moves(table, key string) error {
	return cdc.ConfigError("partition_key", "make the table with partitions by its time or ID, or with none",
		"table %s has partitions by %s: an UPDATE of that moves the row to another partition, which PostgreSQL publishes as an INSERT, so that the event is published again", table, key)
}

func missingPublication(name string) error {
	return cdc.ConfigError("publication_missing",
		"correct source.postgres.publication, or create it with `cdc-relay setup`",
		"publication %q does not exist in this database", name)
}

// UnfitTable is the reason when no publication can hold a configured table.
const UnfitTable = "unfit_table"

// inherited says that rows of a table may be in another one, whose inserts are published under its own name or not at all. quoted
// and child are in SQL.
func inherited(table, quoted, child string) error {
	return cdc.ConfigError(UnfitTable,
		"drop the trigger or rule that inserts into "+child+", publish its rows, if consumers lack them, by moving them (WITH moved AS (DELETE FROM ONLY "+child+" RETURNING *) INSERT INTO "+quoted+
			" SELECT * FROM moved), then run ALTER TABLE "+child+" NO INHERIT "+quoted,
		"table %s inherits from table %s, so that its rows appear there, but are not published and would be deleted unpublished", child, table)
}

// NotPublishedWhileDetached is a warning: a transaction with a snapshot of its own still finds a partition that is being detached, whose inserts are not published any more.
const NotPublishedWhileDetached = "a partition is being detached with CONCURRENTLY, and PostgreSQL does not publish what REPEATABLE READ and SERIALIZABLE transactions insert into it meanwhile"

// FixDetaching is the fix for that; statement ends the DETACH.
func FixDetaching(statement string) string {
	return "run `" + statement + "` unless a session waits for that, then move the rows that they inserted meanwhile from there to the outbox"
}

// publicationProblem returns the first reason why some insert would not arrive; nil: none.
func publicationProblem(o Options, found []publishedTable, insert, viaRoot bool) error {
	name := o.Publication
	bad := func(fix, format string, args ...any) error {
		return cdc.ConfigError("publication", fix, format, args...)
	}
	pub := pgx.Identifier{name}.Sanitize()
	if !insert {
		return bad("run `ALTER PUBLICATION "+pub+" SET (publish = 'insert')`"+unsent, "publication %q does not publish inserts", name)
	}
	byName := map[string]publishedTable{}
	for i := range found {
		byName[found[i].Name] = found[i]
	}
	for _, table := range o.Tables {
		t, ok := byName[table]
		omitted := slices.IndexFunc(t.Columns, func(c catalogColumn) bool { return c.Omitted && o.Needed(table, c.Name) })
		generated := slices.IndexFunc(t.Columns, func(c catalogColumn) bool { return c.Generated && o.Needs != nil && o.Needs(table, c.Name) })
		quoted := pgx.Identifier(strings.SplitN(table, ".", 2)).Sanitize()
		alter := "ALTER PUBLICATION " + pub
		switch {
		case !ok:
			return bad("rename it back if it was renamed, or correct tables[].name; create a new one with `cdc-relay setup`", "table %s does not exist in this database", table)
		case t.Kind != "r" && t.Kind != "p":
			return cdc.ConfigError(UnfitTable, "name the table that is inserted into in tables[].name", "%s is not a table but a view or the like, so inserts into it are not in the WAL", table)
		case t.Persistence != "p":
			return notLogged(table, quoted, t.Kind)
		case t.Unlogged != "":
			return cdc.ConfigError(UnfitTable, "run `ALTER TABLE "+t.Unlogged+" SET LOGGED`, or detach it if it is a foreign table"+unsent,
				"partition %s of table %s is not logged, or is a foreign table, so its rows never reach the WAL", t.Unlogged, table)
		case t.Child != "":
			return inherited(table, quoted, t.Child)
		case t.As != "":
			return bad("set tables[].name to "+t.As, "publication %q publishes the rows of %s as rows of %s, of which it is a partition (publish_via_partition_root)", name, table, t.As)
		case !t.Published:
			return bad("run `"+alter+" ADD TABLE "+quoted+"`"+unsent, "publication %q does not hold table %s", name, table)
		case t.Filter:
			return bad("run `"+alter+" DROP TABLE "+quoted+"`, then `"+alter+" ADD TABLE "+quoted+"`"+unsent, "publication %q filters the rows of %s, so events would be lost", name, table)
		case generated >= 0:
			return bad("name what it is made of in its place in tables[].columns: a column, a template, or json with path",
				"publication %q does not publish column %s of %s, which is generated", name, t.Columns[generated].Name, table)
		case omitted >= 0:
			return bad("run `"+alter+" DROP TABLE "+quoted+"`, then `"+alter+" ADD TABLE "+quoted+"`; if a relay has run before, then drop the slot, whose rows lack columns, with `"+dropSlotSQL(o.Slot)+
				"`, and publish what it did not send, and make it again, with `cdc-relay repair --since TIME`", "publication %q leaves out column %s of %s, which is needed", name, t.Columns[omitted].Name, table)
		case t.Kind == "p" && !viaRoot:
			return bad("run `"+alter+" SET (publish_via_partition_root = true)`"+unsent, "publication %q names partitions instead of %s", name, table)
		}
	}
	return nil
}

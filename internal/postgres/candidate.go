package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// factsOfTable reads [cdc.Facts] of table c.
const factsOfTable = `jsonb_build_object(
	'columns', (SELECT jsonb_object_agg(a.attname, jsonb_build_object('not_null', a.attnotnull, 'default', COALESCE(NULLIF(d.sql, 'NULL'), ''),
			'counter', a.attidentity <> '' OR COALESCE(d.sql LIKE 'nextval(%', false),
			'length', CASE WHEN a.atttypid IN ('bpchar'::regtype, 'varchar'::regtype) AND a.atttypmod > 4 THEN a.atttypmod - 4 ELSE 0 END))
		FROM pg_attribute a LEFT JOIN LATERAL (SELECT regexp_replace(pg_get_expr(adbin, adrelid), '^NULL::.*', 'NULL') AS sql
			FROM pg_attrdef WHERE adrelid = a.attrelid AND adnum = a.attnum) d ON true
		WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
	'unique', (SELECT jsonb_agg((SELECT jsonb_agg(a.attname) FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])))
		FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL))`

// Candidate returns the schema of a table, "schema.name", as a possible outbox, and what else the catalog says of it. An error says that there
// is none whose inserts could be read.
func (d *Database) Candidate(ctx context.Context, name string) (*cdc.Table, *cdc.Facts, error) {
	var facts cdc.Facts
	var generated []string // apart: a scan of JSON begins with an empty value
	var kind, persistence, root, quoted string
	err := d.Conn.QueryRow(ctx, `SELECT c.relkind::text, c.relpersistence::text, format('%I.%I', n.nspname, c.relname),
		COALESCE((SELECT rn.nspname || '.' || r.relname FROM pg_class r JOIN pg_namespace rn ON rn.oid = r.relnamespace
			WHERE c.relispartition AND r.oid = pg_partition_root(c.oid)), ''),
		ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND attgenerated <> '' ORDER BY attnum),
		`+factsOfTable+`
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname || '.' || c.relname = $1`, name).Scan(&kind, &persistence, &quoted, &root, &generated, &facts)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil, cdc.Usage("correct the name, with its schema", "table %s does not exist in database %s", name, d.Server.Database)
	case err != nil:
		return nil, nil, fmt.Errorf("read table %s: %w", name, err)
	case kind != "r" && kind != "p":
		return nil, nil, cdc.Usage("name the table that is inserted into", "%s is not a table but a view or the like, so inserts into it are not in the WAL", name)
	case persistence != "p":
		return nil, nil, notLogged(name, quoted, kind)
	case root != "":
		return nil, nil, cdc.Usage("name "+root, "%s is a partition of %s, as whose rows its rows are published", name, root)
	}
	tables, _, err := ReadTables(ctx, d.Conn, Options{}, []string{name})
	facts.Generated = generated
	return tables[name], &facts, err
}

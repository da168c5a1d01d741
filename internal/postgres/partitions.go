package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// partitionsAhead asks how many seconds the daily partitions that setup made, in the schema cdc_relay, reach ahead.
// The bound of the default partition has no time in it.
const partitionsAhead = `SELECT pn.nspname || '.' || p.relname, coalesce(extract(epoch FROM
		max((regexp_match(pg_get_expr(c.relpartbound, c.oid), ' TO \(''([^'']+)''\)$'))[1]::timestamptz) - now()), 0)::bigint
	FROM pg_inherits i
	JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace cn ON cn.oid = c.relnamespace AND cn.nspname = 'cdc_relay'
	JOIN pg_class p ON p.oid = i.inhparent JOIN pg_namespace pn ON pn.oid = p.relnamespace
	WHERE pn.nspname || '.' || p.relname = ANY($1) GROUP BY 1 ORDER BY 1`

func (c *checker) partitions(ctx context.Context) {
	tables, err := readPartitionsAhead(ctx, c.db.Conn, c.opts.Tables)
	if err != nil {
		c.report.Info("partitions", "", "the table's partitions cannot be read (%v)", err)
	}
	for _, t := range tables {
		_, maintained := c.opts.Routines[t.name]
		c.report.Partitions(t.name, time.Duration(t.seconds)*time.Second, maintained)
	}
	c.routines(ctx)
}

// routines verifies that the relay may maintain the partitions.
func (c *checker) routines(ctx context.Context) {
	names := map[string]string{}
	for table, routine := range c.opts.Routines {
		names[table] = routine.Name
	}
	c.report.Routines(fmt.Sprintf("role %q", c.db.Server.Role), names, func(table string) (bool, error) { return c.db.MayMaintain(ctx, table, c.opts.Routines[table]) })
}

// partitioned is a table and how far its partitions reach ahead.
type partitioned struct {
	name    string
	seconds int64
}

func readPartitionsAhead(ctx context.Context, conn *pgx.Conn, tables []string) ([]partitioned, error) {
	rows, err := conn.Query(ctx, partitionsAhead, tables)
	if err != nil {
		return nil, fmt.Errorf("read partitions of %s: %w", strings.Join(tables, ", "), err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p partitioned, err error) {
		err = row.Scan(&p.name, &p.seconds)
		return p, err
	})
}

package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
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
	rows, _ := c.db.Conn.Query(ctx, partitionsAhead, c.opts.Tables) // ForEachRow returns its error
	var table string
	var seconds int64
	_, err := pgx.ForEachRow(rows, []any{&table, &seconds}, func() error {
		maintained := slices.ContainsFunc(c.opts.Maintained, func(n outbox.Name) bool { return n.String() == table })
		c.report.Partitions(table, time.Duration(seconds)*time.Second, maintained)
		return nil
	})
	if err != nil {
		c.report.Info("partitions", "", "the table's partitions cannot be read (read partitions of %s: %v)", strings.Join(c.opts.Tables, ", "), err)
	}
	c.routines(ctx)
}

// routines verifies that the relay may maintain the partitions.
func (c *checker) routines(ctx context.Context) {
	for _, table := range c.opts.Maintained {
		may, err := c.db.MayMaintain(ctx, table)
		c.report.Routine(fmt.Sprintf("role %q", c.db.Server.Role), outbox.PostgresRoutine(table).SQL(), table.String(), may, err)
	}
}

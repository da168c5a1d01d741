package binlog

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"
)

// partitionsAhead asks how many seconds a table's partitions reach ahead, if they are the daily ones that setup makes.
const partitionsAhead = `SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(),
		COALESCE(MAX(CASE WHEN partition_description <> 'MAXVALUE' THEN TRIM(BOTH '''' FROM partition_description) END), UTC_TIMESTAMP()))
	FROM information_schema.partitions WHERE table_schema = ? AND table_name = ?
	HAVING SUM(partition_name = 'pmax') = 1 AND MIN(partition_name REGEXP '^p(max|[0-9]{8})$') = 1`

func (c *checker) partitions(ctx context.Context) {
	for _, name := range c.opts.Tables {
		schema, table, _ := strings.Cut(name, ".")
		var seconds int64
		err := c.db.db.QueryRowContext(ctx, partitionsAhead, schema, table).Scan(&seconds)
		switch {
		case errors.Is(err, sql.ErrNoRows): // not divided by day
			continue
		case err != nil:
			c.report.Info("partitions", "", "the partitions of %s cannot be read (%v)", name, err)
			continue
		}
		c.report.Partitions(name, time.Duration(seconds)*time.Second, false)
	}
}

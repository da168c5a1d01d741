package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// linkedTables lists the tables that a foreign key connects with one, as far as the user may see them.
const linkedTables = `SELECT DISTINCT other_schema, other_name FROM (
	SELECT table_schema AS other_schema, table_name AS other_name FROM information_schema.key_column_usage WHERE referenced_table_schema = ? AND referenced_table_name = ?
	UNION SELECT referenced_table_schema, referenced_table_name FROM information_schema.key_column_usage WHERE table_schema = ? AND table_name = ? AND referenced_table_name IS NOT NULL
) AS linked ORDER BY 1, 2`

// tableLocks finds who holds locks on a table, those of rows first; the metadata locks of readers and writers count only where asked
// for. MariaDB has no such tables.
const tableLocks = `SELECT t.processlist_id, COALESCE(t.processlist_user, '') FROM (
	SELECT thread_id AS thread, 0 AS rank_of FROM performance_schema.data_locks WHERE object_schema = ? AND object_name = ? AND lock_mode NOT LIKE 'I%'
	UNION ALL SELECT owner_thread_id, 1 FROM performance_schema.metadata_locks WHERE object_type = 'TABLE' AND object_schema = ? AND object_name = ?
		AND lock_status = 'GRANTED' AND (? OR lock_type NOT IN ('INTENTION_EXCLUSIVE', 'SHARED', 'SHARED_HIGH_PRIO', 'SHARED_READ', 'SHARED_WRITE'))
) AS held JOIN performance_schema.threads t ON t.thread_id = held.thread WHERE t.processlist_id <> CONNECTION_ID() ORDER BY rank_of, t.processlist_id LIMIT 1`

// lockedTable describes whose lock a statement on a table waited for, in the words of a cause and of a fix. It looks after the wait, so
// it finds transactions that last; without the right to read the locks it only names the tables.
func (d *Database) lockedTable(ctx context.Context, conn querier, table string, shared bool) (cause, fix string) {
	schema, name, _ := strings.Cut(table, ".")
	near := append([][2]string{{schema, name}}, d.linked(ctx, conn, schema, name)...)
	names := make([]string, len(near))
	for i, at := range slices.Backward(near) { // a lock on the table itself is an ordinary writer's, as a rule
		id, user, err := tableLockHolder(ctx, conn, at[0], at[1], shared && i == 0)
		if err == nil {
			return fmt.Sprintf("process %d of user %s holds a lock on table %s.%s", id, user, at[0], at[1]), fmt.Sprintf("end the transaction of process %d, if this is said again and again", id)
		}
		names[i] = at[0] + "." + at[1]
	}
	return "a transaction held a lock on table " + strings.Join(names, ", or on "), "end long transactions on the tables that are named, if this is said again and again"
}

func (d *Database) linked(ctx context.Context, conn querier, schema, name string) (tables [][2]string) {
	var t [2]string
	if eachRow(ctx, conn, "read foreign keys", func() { tables = append(tables, t) }, []any{&t[0], &t[1]}, linkedTables, schema, name, schema, name) != nil {
		return nil
	}
	return tables
}

func tableLockHolder(ctx context.Context, conn querier, schema, name string, shared bool) (id int, user string, err error) {
	err = eachRow(ctx, conn, "read locks", func() {}, []any{&id, &user}, tableLocks, schema, name, schema, name, shared)
	if err == nil && id == 0 {
		err = sql.ErrNoRows
	}
	return id, user, err
}

package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// lockHolders finds who holds locks on a table, on its partitions, on what was taken out of it, and on the tables that a foreign key
// connects with these, the oldest transaction first. A reader's lock counts only with $2, and only on the table's own parts.
const lockHolders = `WITH own AS (
	SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname || '.' || relname = $1
), part AS (
	SELECT oid FROM own UNION SELECT inhrelid FROM pg_inherits WHERE inhparent IN (SELECT oid FROM own)
	UNION SELECT objoid FROM pg_description WHERE classoid = 'pg_class'::regclass AND objsubid = 0 AND starts_with(description, 'cdc-relay: taken out of ' || $1 || ', until ')
), linked AS (
	SELECT unnest(ARRAY[conrelid, confrelid]) AS oid FROM pg_constraint
	WHERE contype = 'f' AND (conrelid IN (SELECT oid FROM part) OR confrelid IN (SELECT oid FROM part))
)
SELECT l.pid, l.relation::regclass::text, l.mode, coalesce(application_name, ''), coalesce(usename::text, '')
FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
LEFT JOIN (SELECT pid, max(age(transactionid)) AS age FROM pg_locks WHERE locktype = 'transactionid' AND granted GROUP BY pid) AS x USING (pid)
WHERE locktype = 'relation' AND granted AND pid <> pg_backend_pid() AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
	AND (relation IN (SELECT oid FROM part) AND ($2 OR mode <> 'AccessShareLock')
		OR relation IN (SELECT oid FROM linked) AND mode NOT IN ('AccessShareLock', 'RowShareLock'))
ORDER BY age DESC NULLS LAST, pid, relation IN (SELECT oid FROM part), mode LIMIT 1`

// locked describes whose lock a statement on a table waited for, in the words of a cause and of a fix. It looks after the wait, so it
// finds transactions that last.
func (d *Database) locked(ctx context.Context, table string, reads bool) (cause, fix string) {
	var pid int
	var relation, mode, application, role string
	err := d.Conn.QueryRow(ctx, lockHolders, table, reads).Scan(&pid, &relation, &mode, &application, &role)
	if err != nil {
		return "a transaction held a lock on it, or on a table that a foreign key connects with it", "end long transactions on these tables, if this is said again and again"
	}
	who := fmt.Sprintf("process %d of role %s", pid, pgx.Identifier{role}.Sanitize())
	if application != "" {
		who += fmt.Sprintf(" (%s)", strings.Map(printable, application))
	}
	return fmt.Sprintf("%s holds a lock on table %s (%s)", who, relation, mode), fmt.Sprintf("end the transaction of process %d, if this is said again and again", pid)
}

// printable leaves out what an application may have put into its name to change the message.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return -1
	}
	return r
}

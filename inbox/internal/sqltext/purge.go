package sqltext

import (
	"fmt"

	"github.com/cdc-relay/cdc-relay/writer"
)

// Purge deletes the oldest rows of a table by order, batch rows a statement, until there is no more. exec runs a statement
// in a transaction of its own and returns how many rows it deleted. where adds the condition.
func Purge(d writer.Dialect, table string, where func(*Statement), order string, batch int, exec func(query string, args []any) (int64, error)) (n int64, err error) {
	if batch < 1 {
		return 0, fmt.Errorf("purge %s: batch is %d: use 1000, for example", table, batch)
	}
	s := New(d, "DELETE FROM ").Add(table).Add(" WHERE ")
	if s.Postgres() { // which has no DELETE with LIMIT
		s.Add("ctid = ANY (ARRAY(SELECT ctid FROM ").Add(table).Add(" WHERE ")
	}
	where(s)
	s.Add(" ORDER BY ").Add(order).Add(" LIMIT ").Int(int64(batch))
	if s.Postgres() {
		s.Add("))")
	}
	query, args := s.SQL()
	for {
		deleted, err := exec(query, args)
		if err != nil { // what a failed commit deleted is there again
			return n, err
		}
		if n += deleted; deleted < int64(batch) {
			return n, nil
		}
	}
}

package binlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"
	driver "github.com/go-sql-driver/mysql"

	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/statement"
)

// lookahead is the DDL that the binlog holds behind our position: the catalog tells of now, so a statement of the past can be
// judged by it only if nothing was dropped or renamed in between. It is read on a connection of its own before
// anything behind the statement is handed on.
type lookahead struct {
	upto mysql.Set // nil: nothing was read
	// ddl are the statements that may have taken a trigger, a view or a table away, each behind its default database, in
	// lower case.
	ddl map[string]bool
}

// untouched reports whether the tables are what they were at our position, given that executed was read after the
// catalog.
func (ss *session) untouched(ctx context.Context, db *sql.DB, cfg *driver.Config, t statement.Tables, executed mysql.Set) (bool, error) {
	a, s := &ss.ahead, ss.src
	for _, again := range []bool{false, true} { // what was found may stand before our position now
		if again || a.upto == nil || !a.upto.Covers(s.received) {
			*a = lookahead{upto: s.received.Clone(), ddl: map[string]bool{}}
		}
		if err := a.extend(ctx, s, db, cfg, executed); err != nil {
			*a = lookahead{}
			return false, fmt.Errorf("read binlog ahead: %w", err)
		}
		found := false
		for ddl := range a.ddl {
			found = found || statement.On(ddl, t.Changed) || statement.On(ddl, t.Read)
		}
		if !found {
			return true, nil
		}
	}
	return false, nil
}

// extend reads on to the end of the binlog, where executed must be covered.
func (a *lookahead) extend(ctx context.Context, s *Source, db *sql.DB, cfg *driver.Config, executed mysql.Set) error {
	if a.upto.Covers(executed) {
		return nil
	}
	d, err := newDialer(ctx, db, cfg, s.flavor, s.account, 0) // the server ends one of two readers with the same ID
	if err != nil {
		return err
	}
	d.toEnd = true
	c, err := d.open(ctx, dumpStart{set: a.upto.Clone()})
	if err != nil {
		return err
	}
	defer func() { _ = c.conn.Close() }()
	for {
		e, err := c.nextEvent(ctx)
		s.lastTick.Store(time.Now().UnixNano())
		switch {
		case errors.Is(err, errEnded) && a.upto.Covers(executed):
			return nil
		case err != nil:
			return err
		}
		if err := a.take(c, e); err != nil {
			return err
		}
	}
}

// take notes a transaction when it begins: the server sends whole ones, and what was read is forgotten if it ends early.
func (a *lookahead) take(c *dump, e event) error {
	switch e.kind() { //nolint:exhaustive // the rest is of no interest; a compressed transaction holds no DDL
	case replication.FORMAT_DESCRIPTION_EVENT:
		return c.format(e)
	case replication.GTID_EVENT, replication.GTID_TAGGED_LOG_EVENT, replication.MARIADB_GTID_EVENT:
		tx, err := c.transaction(e)
		if err != nil {
			return err
		}
		a.upto.Add(tx.id)
	case replication.QUERY_EVENT, replication.MARIADB_QUERY_COMPRESSED_EVENT:
		parsed, err := c.parse(e)
		if err != nil {
			return err
		}
		if q, ok := parsed.Event.(*replication.QueryEvent); ok && statement.TakesAway(string(q.Query)) {
			a.ddl[strings.ToLower(string(q.Schema)+" "+string(q.Query))] = true
		}
	}
	return nil
}

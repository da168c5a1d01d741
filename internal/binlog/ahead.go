package binlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/go-sql-driver/mysql"
)

// lookahead is the DDL that the binlog holds behind our position: the catalog tells of now, so a statement of the past can be
// judged by it only if nothing was dropped or renamed in between. It is read on a connection of its own before
// anything behind the statement is handed on.
type lookahead struct {
	upto gtidSet // nil: nothing was read
	// ddl are the statements that may have taken a trigger, a view or a table away, each behind its default database, in
	// lower case.
	ddl map[string]bool
}

// takesAway reports whether a statement may have taken a trigger, a view or a table away. What only creates does
// not: the catalog has it.
func takesAway(text string) bool {
	if tokens, plain := tokensOf(text, false); plain && len(tokens) > 0 && slices.Contains([]string{"insert", "replace", "update", "delete"}, strings.ToLower(tokens[0])) {
		return false
	}
	text = strings.ToLower(text)
	return slices.ContainsFunc([]string{"drop", "rename", "replace", "convert"}, func(word string) bool { return strings.Contains(text, word) })
}

// on reports whether DDL may have been on the table: triggers are dropped without their table's name. In plain names,
// which alone get here, there is nothing to escape, so they stand in the text as they are.
func on(ddl string, n tableName) bool {
	has := func(part string) bool { return strings.Contains(ddl, strings.ToLower(part)) }
	return strings.ContainsFunc(ddl, func(c rune) bool { return c >= 0x80 }) ||
		has(n.database) && (has(n.table) || has("trigger") || has("database") || has("schema"))
}

// untouched reports whether the tables are what they were at our position, given that executed was read after the
// catalog.
func (ss *session) untouched(ctx context.Context, db *sql.DB, cfg *mysql.Config, t touched, executed gtidSet) (bool, error) {
	a, s := &ss.ahead, ss.src
	for _, again := range []bool{false, true} { // what was found may stand before our position now
		if again || a.upto == nil || !a.upto.covers(s.received) {
			*a = lookahead{upto: s.received.clone(), ddl: map[string]bool{}}
		}
		if err := a.extend(ctx, s, db, cfg, executed); err != nil {
			*a = lookahead{}
			return false, fmt.Errorf("read binlog ahead: %w", err)
		}
		found := false
		for ddl := range a.ddl {
			found = found || on(ddl, t.changed) || on(ddl, t.read)
		}
		if !found {
			return true, nil
		}
	}
	return false, nil
}

// extend reads on to the end of the binlog, where executed must be covered. The session that does so belongs to a source of
// its own, so that nothing of what it reads gets into ours.
func (a *lookahead) extend(ctx context.Context, s *Source, db *sql.DB, cfg *mysql.Config, executed gtidSet) error {
	if a.upto.covers(executed) {
		return nil
	}
	other := &Source{opts: s.opts, log: s.log, flavor: s.flavor, account: s.account, toEnd: true}
	other.opts.ServerID = 0 // the server ends one of two readers with the same
	id, err := other.serverID(ctx, db)
	if err != nil {
		return err
	}
	ss, err := other.open(ctx, cfg, dumpStart{set: a.upto.clone()}, id)
	if err != nil {
		return err
	}
	defer ss.close()
	for {
		e, err := ss.nextEvent(ctx)
		s.lastTick.Store(time.Now().UnixNano())
		switch {
		case errors.Is(err, errEnded) && a.upto.covers(executed):
			return nil
		case err != nil:
			return err
		}
		if err := a.take(ss, e); err != nil {
			return err
		}
	}
}

// nextEvent waits for the next event.
func (ss *session) nextEvent(ctx context.Context) (event, error) {
	for {
		packet, err := ss.packet()
		if err != nil {
			return event{}, err
		}
		if packet != nil {
			return ss.event(packet)
		}
		if err := ss.conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
			return event{}, err
		}
		if err := errors.Join(ctx.Err(), ss.fill()); err != nil {
			return event{}, err
		}
	}
}

// take notes a transaction when it begins: the server sends whole ones, and what was read is forgotten if it ends early.
func (a *lookahead) take(ss *session, e event) error {
	switch e.kind() { //nolint:exhaustive // the rest is of no interest; a compressed transaction holds no DDL
	case replication.FORMAT_DESCRIPTION_EVENT:
		return ss.format(e)
	case replication.GTID_EVENT, replication.GTID_TAGGED_LOG_EVENT, replication.MARIADB_GTID_EVENT:
		err := ss.begin(e)
		a.upto.add(ss.tx.id)
		return err
	case replication.QUERY_EVENT, replication.MARIADB_QUERY_COMPRESSED_EVENT:
		parsed, err := ss.parse(e)
		if err != nil {
			return err
		}
		if q, ok := parsed.Event.(*replication.QueryEvent); ok && takesAway(string(q.Query)) {
			a.ddl[strings.ToLower(string(q.Schema)+" "+string(q.Query))] = true
		}
	}
	return nil
}

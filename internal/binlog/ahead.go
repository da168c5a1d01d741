package binlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/go-sql-driver/mysql"
)

// lookahead is what the binlog holds behind our position: the catalog tells of now, and who judges a statement of the
// past by it must know what was dropped or renamed in between. It is read on a connection of its own before anything
// behind the statement is handed on.
type lookahead struct {
	from, upto gtidSet // nil: nothing was read
	ddl        []ddl
}

// ddl are the words of a statement that may have taken a trigger, a view or a table away, and its default database; all in
// lower case. nil: it may have been about anything.
type ddl map[string]bool

// ddlOf returns nil and false for a statement that takes nothing away. What only creates does not: the catalog has it.
func ddlOf(text, database string) (d ddl, found bool) {
	words := wordsOf(text)
	certain := !strings.Contains(text, "/*!") && !strings.Contains(text, "/*M!") // what they hold is not executed everywhere
	kind := changesData(words, false)
	if len(words) == 0 || certain && (kind != "" && kind != "create" || len(words) > 1 && words[1] == "temporary") {
		return nil, false
	}
	takes := func(w string) bool { return w == "drop" || w == "rename" || w == "replace" }
	if strings.ContainsFunc(text, func(c rune) bool { return c > '~' || c == '"' || c == '\\' }) || strings.Contains(text, "``") {
		// Where its strings and names end depends on settings.
		return nil, slices.ContainsFunc(strings.FieldsFunc(strings.ToLower(text), func(c rune) bool { return c < 'a' || c > 'z' }), takes)
	}
	if !slices.ContainsFunc(words, takes) {
		return nil, false
	}
	d = ddl{strings.ToLower(database): true}
	for _, word := range words {
		d[strings.ToLower(strings.TrimPrefix(word, "`"))] = true
	}
	return d, true
}

// on reports whether it may have been about the table: triggers are dropped without their table's name.
func (d ddl) on(n tableName) bool {
	table, database := strings.ToLower(n.table), strings.ToLower(n.database)
	return d == nil || d[database] && (d[table] || d["trigger"] || d["database"] || d["schema"])
}

// untouched reports whether the tables are what they were at our position, given that executed was read after the
// catalog.
func (ss *session) untouched(ctx context.Context, db *sql.DB, cfg *mysql.Config, t touched, executed gtidSet) (bool, error) {
	a, s := &ss.ahead, ss.src
	for {
		fresh := a.upto == nil || !a.upto.covers(s.received)
		if fresh {
			*a = lookahead{from: s.received.clone(), upto: s.received.clone()}
		}
		if err := a.extend(ctx, s, db, cfg, executed); err != nil {
			return false, err
		}
		if !slices.ContainsFunc(a.ddl, func(d ddl) bool { return d.on(t.changed) || d.on(t.read) }) {
			return true, nil
		}
		if a.from.covers(s.received) {
			return false, nil
		}
		a.upto = nil // what was found may stand before our position now
	}
}

// extend reads on up to a position. The session that does so belongs to a source of its own, so that nothing of what
// it reads gets into ours.
func (a *lookahead) extend(ctx context.Context, s *Source, db *sql.DB, cfg *mysql.Config, upto gtidSet) error {
	if a.upto.covers(upto) {
		return nil
	}
	other := &Source{opts: s.opts, log: s.log, flavor: s.flavor, account: s.account, received: a.upto}
	other.opts.ServerID = 0 // the server ends one of two readers with the same
	id, err := other.serverID(ctx, db)
	if err != nil {
		return err
	}
	ss, err := other.open(ctx, cfg, a.upto.clone(), id)
	if err != nil {
		return err
	}
	defer ss.close()
	for last := time.Now(); !other.received.covers(upto); {
		s.lastTick.Store(time.Now().UnixNano())
		d, err := ss.look(ctx, &last)
		if err != nil {
			return err
		}
		a.ddl = append(a.ddl, d...)
	}
	return nil
}

// look takes in what was read, or reads more. last is when a transaction came.
func (ss *session) look(ctx context.Context, last *time.Time) (found []ddl, err error) {
	for {
		packet, err := ss.packet()
		if err != nil {
			return nil, err
		}
		if packet == nil {
			break
		}
		e, err := ss.event(packet)
		if err != nil {
			return nil, err
		}
		if e.kind() != replication.HEARTBEAT_EVENT && e.kind() != replication.HEARTBEAT_LOG_EVENT_V2 {
			*last = time.Now()
		}
		if found, err = ss.pass(e, found); err != nil {
			return nil, err
		}
	}
	if time.Since(*last) > silence {
		return nil, errors.New("read binlog ahead: the server sends nothing more, and has not sent all that it has executed")
	}
	if err := ss.conn.SetReadDeadline(time.Now().Add(tickInterval)); err != nil {
		return nil, fmt.Errorf("read binlog ahead: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := ss.fill(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, err
	}
	return found, nil
}

// pass goes past an event, and collects DDL. Where a transaction ends it is added to the position.
func (ss *session) pass(e event, found []ddl) ([]ddl, error) {
	switch e.kind() { //nolint:exhaustive // the rest is of no interest
	case replication.FORMAT_DESCRIPTION_EVENT:
		return found, ss.format(e)
	case replication.GTID_EVENT, replication.GTID_TAGGED_LOG_EVENT, replication.MARIADB_GTID_EVENT:
		return found, ss.begin(e)
	case replication.XID_EVENT, replication.XA_PREPARE_LOG_EVENT, replication.TRANSACTION_PAYLOAD_EVENT:
		ss.src.received.add(ss.tx.id)
	case replication.QUERY_EVENT, replication.MARIADB_QUERY_COMPRESSED_EVENT:
		return ss.passQuery(e, found)
	}
	return found, nil
}

func (ss *session) passQuery(e event, found []ddl) ([]ddl, error) {
	parsed, err := ss.parse(e)
	if err != nil {
		return nil, err
	}
	q, ok := parsed.Event.(*replication.QueryEvent)
	if !ok {
		return found, nil
	}
	if d, takes := ddlOf(string(q.Query), string(q.Schema)); takes {
		found = append(found, d)
	}
	switch word, _, _ := strings.Cut(strings.ToUpper(uncommented(string(q.Query))), " "); word {
	case "BEGIN":
		ss.tx.begun = true
	case "COMMIT", "ROLLBACK":
		ss.src.received.add(ss.tx.id)
	default:
		if !ss.tx.begun {
			ss.src.received.add(ss.tx.id)
		}
	}
	return found, nil
}

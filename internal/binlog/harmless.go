package binlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// judgement is about a statement whose rows are not in the binlog.
type judgement struct {
	harmless bool
	// first is what may let the statement pass, with a comma behind it; "": nothing.
	first string
}

// touchedBy returns nil where nobody can say.
func (ss *session) touchedBy(q *replication.QueryEvent) *touched {
	text := string(q.Query)
	if t, known := touchedBy(text, string(q.Schema)); known && ss.plainly(q.StatusVars, text) {
		return &t
	}
	return nil
}

// harmless reports whether statements on the tables cannot have written to an outbox. An answer is not made up: to
// the relay's user a server shows only what it has rights on, so the rights are looked up first, and the catalog tells
// of now, so the binlog is read up to now. What a session with sql_log_bin = 0 dropped nobody can know.
func (ss *session) harmless(ctx context.Context, t touched) (judgement, error) {
	s := ss.src
	if ss.shown[t] {
		return judgement{harmless: true}, nil
	}
	for _, name := range s.opts.Tables {
		if strings.EqualFold(name, t.changed.String()) {
			return judgement{}, nil
		}
	}
	j, err := ss.judge(ctx, t)
	ss.read = time.Now() // whatever the server sent meanwhile, we did not read
	var stop *cdc.StopError
	if err != nil && !errors.As(err, &stop) && ctx.Err() == nil {
		err = &cdc.FixableError{Cause: fmt.Errorf("find out whether a statement can have written to an outbox: %w", err), Fix: "see whether the server is well"}
	}
	if err == nil && j.harmless {
		ss.shown[t] = true
	}
	return j, err
}

func (ss *session) judge(ctx context.Context, t touched) (judgement, error) {
	s := ss.src
	db, cfg, err := connectSQL(ctx, &s.opts)
	if err != nil {
		return judgement{}, err
	}
	defer func() { _ = db.Close() }()
	c := catalog{db: db, caseless: s.caseless, account: s.account}
	if j, err := c.judge(ctx, t); err != nil || !j.harmless {
		return j, err
	}
	executed, _, err := readServer(ctx, db, s.flavor)
	if err != nil {
		return judgement{}, err
	}
	untouched, err := ss.untouched(ctx, db, cfg, t, executed)
	return judgement{harmless: untouched}, err
}

// catalog is what the server tells the relay's user of its tables.
type catalog struct {
	db       *sql.DB
	caseless bool
	account  string // see account
}

// judge asks in an order that matters. Rights come before what they show. SHOW CREATE TABLE, which comes last, waits for
// DDL on the table that runs: what the answers before it told of is in gtid_executed when it returns.
func (c *catalog) judge(ctx context.Context, t touched) (judgement, error) {
	var grants []string
	seen, err := c.showsTriggers(ctx, t.changed)
	if err != nil {
		return judgement{}, err
	}
	if !seen {
		grants = append(grants, "GRANT TRIGGER ON "+t.changed.quoted()+" TO "+c.account)
	}
	var triggers int
	if err := c.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM information_schema.triggers WHERE event_object_schema = ? AND event_object_table = ?`,
		t.changed.database, t.changed.table).Scan(&triggers); err != nil {
		return judgement{}, fmt.Errorf("look up triggers: %w", err)
	}
	harmless := seen && triggers == 0
	for _, n := range []tableName{t.changed, t.read} {
		if n == (tableName{}) {
			continue
		}
		kind, err := c.kind(ctx, n)
		if err != nil {
			return judgement{}, err
		}
		if kind == hiddenKind && n == t.read {
			grants = append(grants, "GRANT SHOW VIEW ON "+n.quoted()+" TO "+c.account)
		}
		harmless = harmless && kind == tableKind
	}
	if len(grants) == 0 {
		return judgement{harmless: harmless}, nil
	}
	return judgement{first: strings.Join(grants, "; ") + ", so that the relay can look up whether the statement may have written to an outbox, and start it again; if it still stops here, "}, nil
}

// showsTriggers reports whether the user has the right TRIGGER on just this table: only then does an empty list of triggers
// tell that there are none. Rights on more, which may be patterns or have exceptions, are not looked at.
func (c *catalog) showsTriggers(ctx context.Context, n tableName) (bool, error) {
	found, err := c.db.QueryContext(ctx, `SELECT grantee, table_schema, table_name FROM information_schema.table_privileges WHERE privilege_type = 'TRIGGER'`)
	if err != nil {
		return false, fmt.Errorf("look up rights: %w", err)
	}
	defer func() { _ = found.Close() }()
	has, own := false, strings.ReplaceAll(c.account, "`", "'")
	for found.Next() {
		var grantee string
		var on tableName
		if err := found.Scan(&grantee, &on.database, &on.table); err != nil {
			return false, fmt.Errorf("look up rights: %w", err)
		}
		has = has || grantee == own && (on == n || c.caseless && strings.EqualFold(on.String(), n.String()))
	}
	if err := found.Err(); err != nil {
		return false, fmt.Errorf("look up rights: %w", err)
	}
	return has, nil
}

const (
	tableKind  = "Table"
	hiddenKind = "" // or there is none
)

// kind is the heading under which the server prints the definition: Table, or View.
func (c *catalog) kind(ctx context.Context, n tableName) (string, error) {
	found, err := c.db.QueryContext(ctx, `SHOW CREATE TABLE `+n.quoted())
	switch code, _ := number(err); {
	case code == erTableAccess, code == erDBAccessDenied, code == erNoSuchTable, code == erUnknownDatabase:
		return hiddenKind, nil
	case err != nil:
		return "", fmt.Errorf("look up table %s: %w", n, err)
	}
	defer func() { _ = found.Close() }()
	columns, err := found.Columns()
	if err != nil || len(columns) == 0 {
		return "", fmt.Errorf("look up table %s: %w", n, errors.Join(err, found.Err()))
	}
	return columns[0], errors.Join(found.Close(), found.Err())
}

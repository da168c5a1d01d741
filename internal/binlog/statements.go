package binlog

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/sqltext"
)

// query: what is not a row. BEGIN, COMMIT and ROLLBACK; savepoints; DDL, which is a transaction by itself; and
// statements that should have been rows. A transaction's marks are the server's own texts, whatever the client wrote
// (binlog_savepoint_rollback in MySQL's sql/binlog.cc and MariaDB's sql/log.cc).
func (ss *session) query(ctx context.Context, e event) error {
	parsed, err := ss.parse(e)
	if err != nil {
		return err
	}
	q, ok := parsed.Event.(*replication.QueryEvent)
	if !ok {
		return nil
	}
	word, rest, _ := strings.Cut(string(q.Query), " ")
	switch strings.ToUpper(strings.TrimRight(word, ";")) {
	case "BEGIN":
		ss.tx.begun = true
		return nil
	case "COMMIT":
		return ss.commit(ctx)
	case "ROLLBACK":
		if to, partial := strings.CutPrefix(rest, "TO "); partial {
			return ss.rewind(sqltext.PointName(to))
		}
		if rest != "" {
			return cdc.Stop(cdc.ClassRuntime, "unknown_event", errors.New("binlog holds a ROLLBACK of a form that this version does not know"), "use a newer cdc-relay")
		}
		return ss.rollback()
	case "SAVEPOINT":
		if ss.tx.points == nil {
			ss.tx.points = map[string]int64{}
		}
		ss.tx.points[sqltext.PointName(rest)] = ss.src.held.size()
		return nil
	case "XA":
		return ss.xa(strings.ToUpper(rest))
	case "RELEASE":
		return nil
	}
	return ss.otherStatement(q)
}

// otherStatement is none of a transaction's marks: DDL, or what changes data and should have been rows.
func (ss *session) otherStatement(q *replication.QueryEvent) error {
	if err := ss.renamed(q); err != nil {
		return err
	}
	text, plain := string(q.Query), ss.plainMode(q.StatusVars)
	var what *sqltext.Tables // nil: it is not known what the statement touches
	if t, known := sqltext.TablesOf(text, string(q.Schema)); known && plain {
		what = &t
	}
	if kind := sqltext.Changes(text, ss.tx.begun, plain); kind != "" {
		if err := ss.statement(q.StatusVars, kind, what); err != nil {
			return err
		}
	}
	if ss.tx.begun {
		return nil
	}
	return ss.end() // DDL
}

// rewind forgets the rows since a savepoint. One that is not known was set before anything of ours.
func (ss *session) rewind(to string) error {
	ss.src.held.rewind(ss.tx.points[to])
	return nil
}

func (ss *session) rollback() error {
	ss.tx.rows = false
	return ss.end()
}

// xa: XA START is followed by rows that come at PREPARE, before anyone knows whether they will be committed.
func (ss *session) xa(rest string) error {
	switch {
	case strings.HasPrefix(rest, "START"), strings.HasPrefix(rest, "BEGIN"):
		ss.tx.begun = true
		return nil
	case strings.HasPrefix(rest, "COMMIT"), strings.HasPrefix(rest, "ROLLBACK"):
		return ss.end() // of what was prepared in another transaction
	}
	return nil
}

// prepared ends a transaction by XA PREPARE; an byte 1 says that it was committed in one phase.
func (ss *session) prepared(ctx context.Context, e event) error {
	if body := e.body(); len(body) > 0 && body[0] == 1 {
		return ss.commit(ctx)
	}
	if ss.tx.unread != nil {
		return ss.tx.unread
	}
	if ss.tx.rows {
		return content("xa", "wait until `XA RECOVER` does not show it, and append events outside of XA transactions",
			"rows of an outbox table were written under XA: they are in the binlog before it is known whether they will be committed, so they cannot be published in order")
	}
	return ss.end()
}

// load looks at a LOAD DATA that was logged as a statement: a header of 26 bytes, with the length of the schema's
// name in byte 8 and that of the status variables in 11, these variables, the name, a zero, the text.
func (ss *session) load(e event) error {
	b := e.body()
	if len(b) < 26 {
		return fmt.Errorf("decode LOAD DATA: %w", errTruncated)
	}
	schema := 26 + int(b[11]) + int(b[12])<<8
	text := schema + int(b[8]) + 1
	if text > len(b) {
		return fmt.Errorf("decode LOAD DATA: %w", errTruncated)
	}
	return ss.statement(b[26:schema], "load", nil)
}

// plainMode reports whether a statement was read with the usual sql_mode, in a character set none of whose letters holds
// a quote or a backslash.
func (ss *session) plainMode(variables []byte) bool {
	usual, client := sqltext.Settings(variables)
	return usual && ss.charsets[client] != mysql.CharsetUnknown
}

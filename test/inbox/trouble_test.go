package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/kgoinbox"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

// The database's errors are told from the handler's: a consumer parks messages for the latter only.
func TestWhoseError(t *testing.T) {
	onEachWay(t, func(t *testing.T, db *database, w way) {
		access := w.open(t, sql.LevelDefault)
		in := access.inbox(t, w.name)
		refused := errors.New("refused")
		for name, c := range map[string]struct {
			in       handler
			work     func(ctx context.Context, tx execer) error
			database bool
			either   bool // drivers and servers name a lost connection differently
			fix      string
		}{
			"handler":         {work: func(context.Context, execer) error { return refused }},
			"SQL of handler":  {work: func(ctx context.Context, tx execer) error { return tx(ctx, "INSERT INTO nowhere VALUES (1)") }},
			"panic":           {work: func(context.Context, execer) error { panic(refused) }},
			"killed":          {work: func(ctx context.Context, tx execer) error { return tx(ctx, db.killSelf()) }, either: true},
			"missing table":   {in: access.inbox(t, "c", inbox.WithTable("nowhere")), database: true, fix: "schema print --inbox"},
			"stopping server": {work: func(ctx context.Context, tx execer) error { return tx(ctx, db.outage()) }, database: true},
		} {
			if c.in == nil {
				c.in = in
			}
			m := message(name)
			repeat, err := c.in.handle(t.Context(), m, c.work)
			if err == nil || repeat || (errors.Is(err, inbox.ErrDatabase) != c.database && !c.either) || !strings.Contains(err.Error(), c.fix) {
				t.Errorf("%s: repeat %v, error %v", name, repeat, err)
			}
			if repeat, err := in.handle(t.Context(), m, add(m)); repeat || err != nil {
				t.Errorf("%s, then again: repeat %v, error %v", name, repeat, err)
			}
		}
		if err := access.inbox(t, "c", inbox.WithTable("nowhere")).Check(t.Context()); !errors.Is(err, inbox.ErrDatabase) {
			t.Errorf("check of a missing table: %v", err)
		}
		testenv.Must(t, in.Check(t.Context()))
	})
}

// A consumer does not start at a server that takes no writes, as a replica does.
func TestCheckOfAReadOnlyServer(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		d := writer.SQL(db.conn, db.dialect)
		p := newParked(t, d, "c")
		testenv.Must(t, errors.Join(p.in.Check(t.Context()), p.Check(t.Context())))
		d.TxOptions = &sql.TxOptions{ReadOnly: true}
		for what, err := range map[string]error{"inbox": p.in.Check(t.Context()), "parking": p.Check(t.Context())} {
			if !errors.Is(err, inbox.ErrDatabase) || !strings.Contains(err.Error(), "connect to the primary") {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// killSelf ends the connection on which it runs.
func (db *database) killSelf() string {
	if db.my != nil {
		return "KILL CONNECTION_ID()"
	}
	return "SELECT pg_terminate_backend(pg_backend_pid())"
}

// outage is an error of a server that stops.
func (db *database) outage() string {
	if db.my != nil {
		return "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1053, MESSAGE_TEXT = 'Server shutdown in progress'"
	}
	return "DO $$ BEGIN RAISE 'stopping' USING ERRCODE = '57P01'; END $$"
}

// PostgreSQL refuses the first two only at the commit. None is an outage, or a consumer would repeat the message for ever.
func TestErrorsOfTheHandler(t *testing.T) {
	db := newDatabase(t, servers[0])
	db.exec(t, "CREATE TABLE late (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)", "INSERT INTO late VALUES (1)")
	for _, w := range db.ways() {
		in := w.open(t, sql.LevelDefault).inbox(t, w.name)
		for name, work := range map[string]func(context.Context, execer) error{
			"deferred constraint": func(ctx context.Context, tx execer) error { return tx(ctx, "INSERT INTO late VALUES (1)") },
			"ignored error": func(ctx context.Context, tx execer) error {
				_ = tx(ctx, "INSERT INTO nowhere VALUES (1)")
				return nil
			},
			"limit of one statement": func(ctx context.Context, tx execer) error {
				return tx(ctx, "DO $$ BEGIN RAISE 'temporary file size exceeds temp_file_limit' USING ERRCODE = '53400'; END $$")
			},
		} {
			m := message(name)
			if _, err := in.handle(t.Context(), m, work); err == nil || errors.Is(err, inbox.ErrDatabase) {
				t.Errorf("%s, %s: %v", w.name, name, err)
			}
			if repeat, err := in.handle(t.Context(), m, add(m)); repeat || err != nil {
				t.Errorf("%s, %s, then again: repeat %v, error %v", w.name, name, repeat, err)
			}
		}
	}
}

// A handler that waits in the database for longer than Config.Timeout has failed: it is parked after its attempts, on each driver, and
// nothing says that the database fails.
func TestHandlerTimeout(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		c := newConsumption(t, db, 1)
		c.send(0, "a 1", "b 2")
		waits := "SELECT SLEEP(60)"
		if db.pg != nil {
			waits = "SELECT pg_sleep(60)"
		}
		var o seen
		stop, _ := c.start(func(ctx context.Context, tx *sql.Tx, _ *writer.Unit, m *inbox.Message) error {
			if m.ID == "1" {
				_, err := tx.ExecContext(ctx, waits)
				return err
			}
			return effect(ctx, tx, nil, m)
		}, func(k *kgoinbox.Config) { k.Attempts, k.Timeout, k.Observer = 2, cdctest.Patience(2*time.Second), &o })
		c.await("both are done", func() bool { return c.committed(0) == 2 })
		testenv.Must(t, stop())
		if n, outages := c.count(t, "inbox_parked WHERE attempts = 2 AND error LIKE '%took longer than%'"), o.get(func(s *seen) int { return s.outages })(); n != 1 || outages != 0 || c.count(t, "effects") != 1 {
			t.Errorf("%d are parked, %d outages\n%s", n, outages, c.log.String())
		}
	})
}

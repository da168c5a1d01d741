package mysql

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// # The lock
//
// A named lock on the server (GET_LOCK) does for a binlog what the slot does on PostgreSQL: of several relays the one
// that holds it leads. It needs no privilege, and it ends with the session that took it. It is there for liveness only:
// a relay may lose it without noticing, or hold it on a server that is no longer the primary. Its successor's fence in
// Kafka, and the generation of the checkpoint, reject what such a relay still writes.

const (
	// lockWait is how long Acquire waits for the lock. It gets it the moment it is free.
	lockWait = time.Second
	// lockTimeout is how long the server waits for a sign of life before it ends the session: so long a relay leads
	// that is frozen, or whose machine is gone.
	lockTimeout = 10 * time.Second
	// lockPing is how often the session gives a sign of life.
	lockPing = 3 * time.Second
	// lockName is how long a name may be; MariaDB allows more.
	lockName = 64
)

// Leader takes the lock and keeps it. Its methods belong to one goroutine.
type Leader struct {
	// Clock is told how far the server's clock is ahead; nil: nobody asks. It is called from another goroutine.
	Clock func(ahead time.Duration)

	lock  *lock // nil: not taken
	wrote int64 // server_id of the last server that took writes when it was asked, also while another session kept the lock
}

// lock is the session that holds the lock.
type lock struct {
	db     *sql.DB
	conn   *sql.Conn
	id     int64 // the session's, on the server
	server int64 // server_id
	wrote  bool  // the server took writes at some time; after the start of keep only that changes it
	stop   context.CancelFunc
	done   chan struct{} // closed when the session has ended
	why    error         // of its end; set before done is closed
}

// nameOfLock returns the name of the lock on a source: of the configured ID, as on PostgreSQL of the slot.
func nameOfLock(id cdc.Source) string {
	name := "cdc-relay." + id.SystemID + "." + id.Database
	if len(name) > lockName {
		name = fmt.Sprintf("cdc-relay.%x", sha256.Sum256([]byte(name)))[:lockName]
	}
	return name
}

// Lead takes the lock, unless it was taken before the reconnect and db leads to the server that has it. The error wraps
// [cdc.ErrStandby] if another session keeps it.
func (s *Leader) Lead(ctx context.Context, db *sql.DB, cfg *mysql.Config, id cdc.Source) error {
	name := nameOfLock(id)
	if s.lock != nil {
		holder, err := lockHolder(ctx, db, name)
		if err != nil || s.Lost() == nil && s.lock.id == holder {
			return err
		}
		s.Release()
	}
	l, err := s.takeLock(ctx, cfg, name)
	s.lock = l
	return err
}

// takeLock connects and takes the lock, waiting for up to lockWait.
func (s *Leader) takeLock(ctx context.Context, cfg *mysql.Config, name string) (*lock, error) {
	db, err := Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	l := &lock{db: db, done: make(chan struct{})}
	if l.conn, err = db.Conn(ctx); err == nil { // a session that breaks is not replaced
		err = l.take(ctx, name)
	}
	s.note(l)
	l.wrote = s.wrote == l.server
	if err != nil {
		l.close()
		return nil, err
	}
	alive, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	go l.keep(alive, s.Clock)
	return l, nil
}

func (l *lock) take(ctx context.Context, name string) error {
	if _, err := l.conn.ExecContext(ctx, "SET SESSION wait_timeout = ?", int(lockTimeout.Seconds())); err != nil {
		return fmt.Errorf("take the lock of the leader: %w", err)
	}
	var got sql.NullBool
	var readOnly string
	err := l.conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?), CONNECTION_ID(), @@GLOBAL.server_id, @@GLOBAL.read_only", name, int(lockWait.Seconds())).
		Scan(&got, &l.id, &l.server, &readOnly)
	l.wrote = err == nil && !readsOnly(readOnly)
	if err == nil && got.Bool {
		return nil
	}
	holder, unknown := lockHolder(ctx, l.conn, name) // also if a limit on the time of statements ended the wait
	switch {
	case holder != 0, err == nil && unknown == nil && got.Valid:
		return fmt.Errorf("%w: connection %d of the server%s holds the lock %q", cdc.ErrStandby, holder, l.client(ctx, holder), name)
	case err == nil && unknown == nil:
		return errors.New("take the lock of the leader: the server ended the wait")
	default:
		return fmt.Errorf("take the lock of the leader: %w", cmp.Or(err, unknown))
	}
}

// client says where a connection comes from: the process list shows an account its own connections without any right.
func (l *lock) client(ctx context.Context, id int64) (from string) {
	// Not information_schema.processlist, which fails on MySQL while a statement with bytes that are no text runs.
	_ = eachShown(ctx, l.conn, "SHOW PROCESSLIST", func(shown map[string]string) { // without an answer the connection is named alone
		if shown["id"] == strconv.FormatInt(id, 10) {
			from = " (from " + shown["host"] + ")"
		}
	})
	return from
}

// lockHolder returns the server's ID of the connection that holds the lock, or 0.
func lockHolder(ctx context.Context, db querier, name string) (int64, error) {
	var id sql.NullInt64
	err := eachRow(ctx, db, "look for the lock of the leader", func() {}, []any{&id}, "SELECT IS_USED_LOCK(?)", name)
	return id.Int64, err
}

// Here returns an error if a connection leads to another server than the one on which this relay leads: what one of them shows, and the
// position of the other, are not of the same moment.
func (s *Leader) Here(ctx context.Context, conn querier, id cdc.Source) error {
	holder, err := lockHolder(ctx, conn, nameOfLock(id))
	switch {
	case err != nil || s.lock != nil && holder == s.lock.id:
		return err
	case s.Lost() != nil:
		return s.Lost()
	}
	return cdc.ConfigError("other_server", "give the connection string of the owner on the server of source.mysql.dsn, or leave it out if the relay's user may read the tables",
		"the connection string of the owner (--owner-dsn or CDC_RELAY_OWNER_DSN) leads to another server than source.mysql.dsn, and the rows of one server do not match the position of another")
}

// Idle returns an error while a relay leads, which would save its own position over one that was set by hand.
func Idle(ctx context.Context, d *Database, o Options) error {
	name := nameOfLock(d.Source(o))
	holder, err := lockHolder(ctx, d.DB, name)
	if err == nil && holder != 0 {
		err = cdc.Stop(cdc.ClassRuntime, "lock_held", fmt.Errorf(
			"a relay runs (connection %d of the server holds the lock %q)", holder, name), "stop it first, then try again")
	}
	return err
}

// keep gives signs of life until the session ends or is ended. It ends it if the server has become read-only and replicates from none: after a
// switchover the connection string may lead to another primary, now or later, and from this server nothing would come any more.
func (l *lock) keep(ctx context.Context, clock func(ahead time.Duration)) {
	defer close(l.done)
	defer l.close()
	ticker := time.NewTicker(lockPing)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		pinging, cancel := context.WithTimeout(ctx, lockPing)
		var now float64
		var readOnly string
		asked := time.Now()
		err := l.conn.QueryRowContext(pinging, "SELECT @@timestamp, @@GLOBAL.read_only").Scan(&now, &readOnly)
		demoted := err == nil && l.wrote && readsOnly(readOnly) && !readReplica(pinging, l.conn, cdc.MySQL).runs // of MariaDB the default connection
		cancel()
		switch {
		case err != nil:
			l.why = fmt.Errorf("the connection that holds the lock of the leader has ended: %w", err)
			return
		case demoted:
			l.why = fmt.Errorf("the server took writes, and has become read-only (read_only is %s): another may be the primary now", readOnly)
			return
		}
		l.wrote = l.wrote || !readsOnly(readOnly)
		if clock != nil {
			clock(cdc.ClockAhead(asked, time.UnixMicro(int64(now*1e6))))
		}
	}
}

// close ends the session: closing db alone leaves a connection open that is in use.
func (l *lock) close() {
	if l.conn != nil {
		_ = l.conn.Close()
	}
	_ = l.db.Close()
}

// Lost returns why the session that took the lock has ended; nil if that is not known of it.
func (s *Leader) Lost() error {
	if s.lock == nil {
		return nil
	}
	select {
	case <-s.lock.done:
		return s.lock.why
	default:
		return nil
	}
}

// Release ends the session, and with it the lock.
func (s *Leader) Release() {
	if s.lock != nil {
		s.lock.stop()
		<-s.lock.done
		s.note(s.lock)
		s.lock = nil
	}
}

// note keeps which server took writes beyond the end of the session, for the next one on it.
func (s *Leader) note(l *lock) {
	if l.wrote {
		s.wrote = l.server
	}
}

package idempotency

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox/internal/sqltext"
	"github.com/cdc-relay/cdc-relay/writer"
)

// The server's errors for a row that exists, for a lock that was not free in time, and for a statement after one that failed.
const (
	mysqlDuplicate      = 1062
	mysqlLockTimeout    = 1205
	lockNotAvailable    = "55P03"
	inFailedTransaction = "25P02"
)

// insert adds the key without a response, which no other transaction can see, and reports whether it is new. It waits for a
// transaction that has added the same key, but not longer than s.wait: the server ends the wait. If the client did so, the
// driver would close the connection, and on MySQL the statement would go on waiting.
func (s *Store[Tx]) insert(ctx context.Context, tx Tx, k Key, request [32]byte) (first bool, err error) {
	if s.db.Dialect() == writer.Postgres {
		first, err = s.insertPostgres(ctx, tx, k, request)
	} else {
		first, err = s.insertMySQL(ctx, tx, k, request)
	}
	if state, number := writer.ServerError(err); state == lockNotAvailable || number == mysqlLockTimeout {
		return false, ErrInProgress
	}
	if err != nil {
		return false, s.failed("insert into", err)
	}
	return first, nil
}

// insertPostgres sets lock_timeout, inserts, and sets the former value, in one statement: the parts that read from others
// are executed after these. The handler's statements have the session's timeout.
func (s *Store[Tx]) insertPostgres(ctx context.Context, tx Tx, k Key, request [32]byte) (first bool, err error) {
	query, args := sqltext.New(s.db.Dialect(), "WITH session AS MATERIALIZED (SELECT current_setting('lock_timeout') AS lock_timeout), ").
		Add("waiting AS MATERIALIZED (SELECT set_config('lock_timeout', '").Int(max(1, s.wait.Milliseconds())).Add("', true), lock_timeout FROM session), ").
		Add("inserted AS (INSERT INTO ").Add(s.table).Add(" (scope, idempotency_key, request_hash, status, headers, body) SELECT ").
		Text(k.Scope).Add("::text, ").Text(k.Key).Add("::text, ").Bytes(request[:]).Add("::bytea, 0, '', '' FROM waiting ON CONFLICT DO NOTHING RETURNING 1) ").
		Add("SELECT n, set_config('lock_timeout', lock_timeout, true) FROM (SELECT count(*) AS n FROM inserted) AS counted, waiting").SQL()
	rows, err := s.db.Query(ctx, tx, query, args...)
	if err != nil {
		return false, err
	}
	var (
		n       int
		restore string
	)
	for rows.Next() {
		err = errors.Join(err, rows.Scan(&n, &restore))
	}
	return n == 1, errors.Join(err, rows.Err(), rows.Close())
}

// insertMySQL is a plain INSERT, whose error 1062 means that the key exists. MariaDB takes a setting for one statement. MySQL
// does not for this one (it has no SET_VAR hint), so it is set and set back, also after an error.
func (s *Store[Tx]) insertMySQL(ctx context.Context, tx Tx, k Key, request [32]byte) (first bool, err error) {
	seconds := int64(math.Ceil(s.wait.Seconds()))
	q := sqltext.New(s.db.Dialect(), "")
	if s.db.Dialect() == writer.MariaDB {
		q.Add("SET STATEMENT innodb_lock_wait_timeout = ").Int(seconds).Add(" FOR ")
	} else {
		set, _ := sqltext.New(s.db.Dialect(), "SET @cdc_relay_wait = @@SESSION.innodb_lock_wait_timeout, SESSION innodb_lock_wait_timeout = ").Int(seconds).SQL()
		if _, err := s.db.Exec(ctx, tx, set); err != nil {
			return false, err
		}
		defer func() {
			_, failed := s.db.Exec(ctx, tx, "SET SESSION innodb_lock_wait_timeout = @cdc_relay_wait")
			err = errors.Join(err, failed)
		}()
	}
	query, args := q.Add("INSERT INTO ").Add(s.table).Add(" (scope, idempotency_key, request_hash, status, headers, body) VALUES (").
		Texts(k.Scope, k.Key).Add(", ").Bytes(request[:]).Add(", 0, '', '')").SQL()
	_, err = s.db.Exec(ctx, tx, query, args...)
	if _, number := writer.ServerError(err); number == mysqlDuplicate {
		return false, nil
	}
	return err == nil, err
}

// WithWait sets how long a call waits for another one with the same key, by default 2 s. On MySQL and MariaDB it is rounded up
// to seconds. On MySQL, if the context of [Store.Do] ends right after the INSERT of the key, the connection keeps this limit as
// its innodb_lock_wait_timeout: set ConnMaxLifetime, so that the connection is replaced.
func WithWait(d time.Duration) Option {
	return func(c *config) error {
		if d <= 0 {
			return errors.New("the wait is not positive: use 2 * time.Second, for example")
		}
		c.wait = d
		return nil
	}
}

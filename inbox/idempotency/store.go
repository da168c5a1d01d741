package idempotency

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/internal/sqltext"
	"github.com/cdc-relay/cdc-relay/writer"
)

// Response is the result of a request.
type Response struct {
	// Status is an HTTP status. One of 500 or more, and those that [WithStored] leaves out, roll back and are not stored.
	Status int
	// Header is stored as JSON, in which bytes that are not UTF-8 are replaced.
	Header http.Header
	// Body is limited by WithMaxResponse.
	Body []byte
}

// Store keeps keys and responses in one table. It holds only settings and is safe for concurrent use.
type Store[Tx any] struct {
	db     writer.DB[Tx]
	events *writer.Writer
	config
}

// again begins once more: of a connection that died in the pool a moment ago a driver learns when it sends BEGIN.
type again[Tx any] struct{ writer.DB[Tx] }

func (a again[Tx]) Begin(ctx context.Context) (Tx, error) {
	tx, err := a.DB.Begin(ctx)
	if err != nil && ctx.Err() == nil {
		return a.DB.Begin(ctx)
	}
	return tx, err
}

// New returns a store in the table idempotency_keys, whose handlers raise events that the writer appends. It does not connect
// to the database.
func New[Tx any](db writer.DB[Tx], events *writer.Writer, opts ...Option) (*Store[Tx], error) {
	if events == nil || events.Dialect() != db.Dialect() {
		return nil, errors.New("make store of idempotency keys: the writer is nil or has another dialect than the database: give New one of the same dialect")
	}
	s := &Store[Tx]{db: again[Tx]{db}, events: events, config: config{table: "idempotency_keys", wait: 2 * time.Second, maxRequest: 1 << 20, maxBody: MaxBody, keeps: keeps, fail: respond}}
	for _, o := range opts {
		if err := o(&s.config); err != nil {
			return nil, fmt.Errorf("make store of idempotency keys: %w", err)
		}
	}
	w, err := writer.New(db.Dialect(), writer.WithTable(s.table)) // which quotes the name
	if err != nil {
		return nil, fmt.Errorf("make store of idempotency keys: %w", err)
	}
	s.table = w.Table()
	return s, nil
}

// Do runs fn in a transaction that also stores the key and fn's response, and appends the events of the unit, and returns the
// response. If the key is stored, it returns the stored response and true, without calling fn. The unit is fn's, as in
// [writer.Run].
//
// A second call with the same key waits for the first one, and if that rolls back, runs its own fn; [ErrInProgress] means
// that it took longer than [WithWait]. request identifies what is asked for: with another one than the stored key's the
// result is a *[MismatchError].
//
// fn must return the errors of its statements: after a deadlock the server has rolled back everything. Instead it may return
// a status of 400 to 499 for an error that it expects, such as a row that exists. On PostgreSQL the statement that failed has
// undone what fn wrote, and the response is stored in another transaction. If the unit has events then, Do fails.
//
// An error of fn, a panic (returned as *[inbox.PanicError]) and a status that is not stored ([WithStored]) roll back; the
// response of such a status is returned as it is. If the database could not serialize the transaction, fn is called again.
// The database's own errors wrap [inbox.ErrDatabase]; call Do again with the same key.
func (s *Store[Tx]) Do(ctx context.Context, k Key, request [32]byte, fn func(ctx context.Context, tx Tx, u *writer.Unit) (*Response, error)) (r *Response, replayed bool, err error) {
	if err := k.check(); err != nil {
		return nil, false, err
	}
	err = inbox.TransactUnit(ctx, s.db, s.events, func(ctx context.Context, tx Tx, u *writer.Unit) error {
		first, err := s.insert(ctx, tx, k, request)
		if replayed = err == nil && !first; err != nil {
			return err
		}
		if replayed {
			r, err = s.stored(ctx, tx, k, request)
			return err
		}
		if r, err = fn(ctx, tx, u); err != nil {
			return err
		}
		return s.store(ctx, tx, k, r, u)
	})
	switch {
	case errors.Is(err, errNotStored):
		return r, false, nil
	case errors.Is(err, errAborted): // the key was free for a moment: another call's response may be stored by now
		refusal := r
		return s.Do(ctx, k, request, func(context.Context, Tx, *writer.Unit) (*Response, error) { return refusal, nil })
	case err != nil:
		return nil, false, err
	default:
		return r, replayed, nil
	}
}

var (
	// errNotStored rolls back a transaction whose response is returned nevertheless.
	errNotStored = errors.New("the response's status is not stored")

	// errAborted rolls back a transaction of PostgreSQL in which a statement has failed, and which takes no others. A
	// savepoint before fn would cost every request a round trip.
	errAborted = errors.New("a statement of the transaction failed")
)

// store adds the response to the row of its key, and appends the events.
func (s *Store[Tx]) store(ctx context.Context, tx Tx, k Key, r *Response, u *writer.Unit) error {
	switch {
	case r == nil:
		return errors.New("store response: there is none: return a Response or an error")
	case r.Status < 200 || r.Status > 999:
		return fmt.Errorf("store response: status %d is not a final one: use 200 to 499", r.Status)
	case r.Status >= http.StatusInternalServerError || !s.keeps(r.Status):
		return errNotStored
	case len(r.Body) > s.maxBody:
		return tooLarge(s.maxBody)
	}
	headers, err := json.Marshal(r.Header)
	if err != nil {
		return fmt.Errorf("store response: %w", err)
	}
	// Where a statement has failed, PostgreSQL refuses the events, and the response must not be stored without them. MySQL would commit
	// them alone after a deadlock: there they are appended at the end.
	if s.db.Dialect() == writer.Postgres {
		if err := s.events.Flush(ctx, writer.TxOf(s.db, tx), u); err != nil {
			return err
		}
	}
	body := r.Body
	if body == nil {
		body = []byte{}
	}
	q := sqltext.New(s.db.Dialect(), "UPDATE ").Add(s.table).Add(" SET status = ").Int(int64(r.Status)).
		Add(", headers = ").Text(string(headers)).Add(", body = ").Bytes(body)
	if k.absent {
		q = sqltext.New(s.db.Dialect(), "DELETE FROM ").Add(s.table)
	}
	query, args := s.where(q, k).Add(" AND status = 0").SQL() // not what another call has stored
	n, err := s.db.Exec(ctx, tx, query, args...)
	if state, _ := writer.ServerError(err); state == inFailedTransaction {
		if r.Status >= http.StatusBadRequest {
			return errAborted
		}
		return fmt.Errorf("store response: status %d, but a statement failed, and PostgreSQL has undone the others: "+
			"return its error or a status of 400 or more, or use ON CONFLICT or SAVEPOINT", r.Status)
	}
	ended := errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil
	if err != nil && !ended {
		return s.failed("update", err)
	}
	if n == 0 { // the transaction of the key has ended: MySQL ends it with a deadlock
		return fmt.Errorf("store response: %w: it was rolled back or committed: return the errors of statements, and leave the transaction open", writer.ErrNoTransaction)
	}
	return nil
}

// stored returns the stored response. It reads with a lock: under MySQL's REPEATABLE READ a plain SELECT may not see what
// another transaction has just stored.
func (s *Store[Tx]) stored(ctx context.Context, tx Tx, k Key, request [32]byte) (*Response, error) {
	q := s.where(sqltext.New(s.db.Dialect(), "SELECT request_hash, status, headers, body FROM ").Add(s.table), k)
	query, args := q.Add(map[bool]string{true: " FOR SHARE", false: " LOCK IN SHARE MODE"}[q.Postgres()]).SQL()
	rows, err := s.db.Query(ctx, tx, query, args...)
	if err != nil {
		return nil, s.failed("read", err)
	}
	var (
		hash, headers []byte
		r             Response
	)
	found := rows.Next()
	if found {
		err = rows.Scan(&hash, &r.Status, &headers, &r.Body)
	}
	if err = errors.Join(err, rows.Err(), rows.Close()); err != nil {
		return nil, s.failed("read", err)
	}
	switch {
	case !found: // deleted since: the next call runs
		return nil, ErrInProgress
	case !bytes.Equal(hash, request[:]):
		return nil, &MismatchError{Key: k}
	case r.Status == 0: // only the transaction of the key sees it so, unless that was ended
		return nil, fmt.Errorf("read response: %w: the first call has committed without one: leave the transaction open, "+
			"and delete the key from %s to have the request done again", writer.ErrNoTransaction, s.table)
	}
	if err := json.Unmarshal(headers, &r.Header); err != nil {
		return nil, fmt.Errorf("read headers of the stored response: %w", err)
	}
	return &r, nil
}

func (s *Store[Tx]) where(q *sqltext.Statement, k Key) *sqltext.Statement {
	return q.Add(" WHERE scope = ").Text(k.Scope).Add(" AND idempotency_key = ").Text(k.Key)
}

// Purge deletes keys that were stored before a time, in transactions of batch rows, and returns how many it deleted, also
// with an error. A request with a deleted key is done again: say in the documentation of the API how long keys are kept.
func (s *Store[Tx]) Purge(ctx context.Context, before time.Time, batch int) (int64, error) {
	return sqltext.Purge(s.db.Dialect(), s.table, func(q *sqltext.Statement) { q.Add("created_at < ").Time(before) }, "created_at", batch,
		func(query string, args []any) (deleted int64, err error) {
			err = inbox.Transact(ctx, s.db, func(ctx context.Context, tx Tx) (err error) {
				if deleted, err = s.db.Exec(ctx, tx, query, args...); err != nil {
					return s.failed("delete from", err)
				}
				return nil
			})
			return deleted, err
		})
}

// failed describes an error of a statement of the store.
func (s *Store[Tx]) failed(op string, err error) error {
	return &inbox.DatabaseError{Op: op + " " + s.table, Err: err, Fix: inbox.Fix(s.table, err)}
}

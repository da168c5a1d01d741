package cdctest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// onSQL is what the databases do alike.
type onSQL struct {
	_      sync.Mutex              // no copies: vet reports them. open and events would still use the original database
	open   func() (*sql.DB, error) // as the superuser
	events func() string           // the query of Committed
}

// connect opens a session. Each has a connection of its own, which none inherits.
func (o *onSQL) connect(ctx context.Context) (*sqlSession, error) {
	db, err := o.open()
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &sqlSession{db, conn}, nil
}

// setUp creates the tables.
func (o *onSQL) setUp(ctx context.Context, seqs string, steps []outbox.Step) error {
	s, err := o.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.exec(ctx, seqs); err != nil {
		return err
	}
	for _, step := range steps {
		for _, statement := range step.Statements {
			if err := s.exec(ctx, statement.SQL); err != nil {
				return err
			}
		}
	}
	return nil
}

// Exec runs a statement; without arguments, PostgreSQL takes several.
func (o *onSQL) Exec(ctx context.Context, query string, args ...any) error {
	s, err := o.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.exec(ctx, query, args...)
}

// Query runs a query that returns one row and scans it into dest.
func (o *onSQL) Query(ctx context.Context, dest []any, query string, args ...any) error {
	s, err := o.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.conn.QueryRowContext(ctx, query, args...).Scan(dest...); err != nil {
		return fmt.Errorf("%.60s: %w", query, err)
	}
	return nil
}

// Committed reads the outbox table.
func (o *onSQL) Committed(ctx context.Context, yield func(*Event) error) error {
	s, err := o.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	rows, err := s.conn.QueryContext(ctx, o.events())
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var e Event
		var headers []byte
		err := rows.Scan(&e.ID, &e.Topic, &e.Key, &e.AggregateType, &e.Type, &e.ContentType, &e.OccurredAt, &headers, &e.Payload)
		if err != nil {
			return err
		}
		if err := e.complete(headers); err != nil {
			return err
		}
		if err := yield(&e); err != nil {
			return err
		}
	}
	return rows.Err()
}

// sqlSession is what the databases' sessions do alike.
type sqlSession struct {
	db   *sql.DB // for statements outside of the transaction
	conn *sql.Conn
}

func (s *sqlSession) exec(ctx context.Context, query string, args ...any) error {
	if _, err := s.conn.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("%.60s: %w", query, err)
	}
	return nil
}

func (s *sqlSession) Begin(ctx context.Context) error     { return s.exec(ctx, "BEGIN") }
func (s *sqlSession) Commit(ctx context.Context) error    { return s.exec(ctx, "COMMIT") }
func (s *sqlSession) Rollback(ctx context.Context) error  { return s.exec(ctx, "ROLLBACK") }
func (s *sqlSession) Savepoint(ctx context.Context) error { return s.exec(ctx, "SAVEPOINT detour") }

func (s *sqlSession) RollbackToSavepoint(ctx context.Context) error {
	return s.exec(ctx, "ROLLBACK TO detour")
}

// Close closes the connection. It waits for a statement that runs: cancel its context first.
func (s *sqlSession) Close() {
	_ = s.conn.Close()
	_ = s.db.Close()
}

package main

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/writer"
)

const database = "shop"

// shop is an application: its transactions change accounts and append the events about them.
type shop struct {
	cdctest.Database // for the checkers

	backend backend
	db      *sql.DB
	events  *writer.Writer

	mu sync.Mutex
	// sent is when the COMMIT of an event was sent.
	sent map[uuid.UUID]time.Time
}

// Roles: the application owns its tables, the relay may only replicate.
const (
	roleShop  = "shop"
	roleRelay = "cdc_relay"
)

// openShop creates the database and its roles, but nothing that cdc-relay setup creates.
func openShop(ctx context.Context, b backend) (*shop, error) {
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	events, err := writer.New(b.dialect())
	if err != nil {
		return nil, err
	}
	db, err := sql.Open(b.driver(), b.ownerDSN())
	if err != nil {
		return nil, err
	}
	s := &shop{Database: b.open(), backend: b, db: db, events: events, sent: map[uuid.UUID]time.Time{}}
	if _, err := db.ExecContext(ctx, "CREATE TABLE accounts (id varchar(255) PRIMARY KEY, changes int NOT NULL)"); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("create table accounts: %w", err)
	}
	return s, nil
}

// Connect opens a session for one writer.
func (s *shop) Connect(ctx context.Context) (cdctest.Session, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &session{shop: s, conn: conn}, nil
}

// sentAt returns when the event's COMMIT was sent, or the zero time if it is unknown.
func (s *shop) sentAt(id uuid.UUID) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[id]
}

// session is one connection of the application.
type session struct {
	shop *shop
	conn *sql.Conn
	tx   *sql.Tx
	ids  []uuid.UUID // appended in the open transaction
}

// Begin uses READ COMMITTED, PostgreSQL's default. MySQL's default takes gap locks when a new account is inserted.
func (s *session) Begin(ctx context.Context) (err error) {
	s.ids = s.ids[:0]
	s.tx, err = s.conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	return err
}

// Reserve is the business transaction: n changes of an account. They lock its row until the transaction ends, so the numbers
// follow commit order.
func (s *session) Reserve(ctx context.Context, key string, n int) (first int, err error) {
	last, err := s.shop.backend.changeAccount(ctx, s.shop.db, s.tx, key, n)
	if err != nil {
		return 0, fmt.Errorf("change account %s: %w", key, err)
	}
	return last - n + 1, nil
}

// Insert appends the events about the changes in the same transaction.
func (s *session) Insert(ctx context.Context, events []*cdctest.Event) error {
	batch := make([]*writer.Event, len(events))
	for i, e := range events {
		batch[i] = &writer.Event{
			ID: e.ID, AggregateType: "Account", AggregateID: e.Key, Type: e.Type,
			ContentType: e.ContentType, OccurredAt: e.OccurredAt, Headers: e.Headers, Payload: e.Payload,
		}
		s.ids = append(s.ids, e.ID)
	}
	return s.shop.events.Append(ctx, s.tx, batch...)
}

func (s *session) Savepoint(ctx context.Context) error { return s.exec(ctx, "SAVEPOINT detour") }

func (s *session) RollbackToSavepoint(ctx context.Context) error {
	return s.exec(ctx, "ROLLBACK TO detour")
}

func (s *session) exec(ctx context.Context, statement string) error {
	if _, err := s.tx.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

func (s *session) Commit(context.Context) error {
	at := time.Now()
	if err := s.tx.Commit(); err != nil {
		return err
	}
	s.shop.mu.Lock()
	defer s.shop.mu.Unlock()
	for _, id := range s.ids {
		s.shop.sent[id] = at
	}
	return nil
}

func (s *session) Rollback(context.Context) error { return s.tx.Rollback() }

func (s *session) Close() { _ = s.conn.Close() }

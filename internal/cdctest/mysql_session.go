package cdctest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// Connect opens a session at READ COMMITTED: it takes no gap locks, so that transactions that lock their keys in order
// never deadlock.
func (m *MySQL) Connect(ctx context.Context) (Session, error) {
	s, err := m.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.exec(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"); err != nil {
		s.Close()
		return nil, err
	}
	return &mysqlSession{s}, nil
}

type mysqlSession struct{ *sqlSession }

// Reserve inserts a new key outside of the transaction: two transactions that insert the same key deadlock when a third
// one rolls it back.
func (s *mysqlSession) Reserve(ctx context.Context, key string, n int) (first int, err error) {
	first, found, err := s.reserve(ctx, key, n)
	if err == nil && !found {
		if _, err = s.db.ExecContext(ctx, "INSERT IGNORE INTO seqs VALUES (?, 0)", key); err == nil {
			first, found, err = s.reserve(ctx, key, n)
		}
	}
	if err == nil && !found {
		err = errors.New("the key is not in the table")
	}
	if err != nil {
		return 0, fmt.Errorf("reserve %d seqs of key %s: %w", n, key, err)
	}
	return first, nil
}

func (s *mysqlSession) reserve(ctx context.Context, key string, n int) (first int, found bool, err error) {
	result, err := s.conn.ExecContext(ctx, "UPDATE seqs SET seq = LAST_INSERT_ID(seq + ?) WHERE k = ?", n, key)
	if err != nil {
		return 0, false, err
	}
	rows, errRows := result.RowsAffected()
	last, errLast := result.LastInsertId()
	return int(last) - n + 1, rows == 1, errors.Join(errRows, errLast)
}

func (s *mysqlSession) Insert(ctx context.Context, events []*Event) error {
	var args []any
	for _, e := range events {
		var topic, headers any
		if e.Topic != "" {
			topic = e.Topic
		}
		if len(e.Headers) > 0 {
			text, err := json.Marshal(e.Headers)
			if err != nil {
				return err
			}
			headers = string(text)
		}
		args = append(args, e.ID[:], topic, e.Key, e.AggregateType, e.Type, e.ContentType, e.OccurredAt.UTC(), headers, e.Payload)
	}
	const row = ", (?, ?, ?, ?, ?, ?, ?, ?, ?)"
	return s.exec(ctx, `INSERT INTO outbox
		(event_id, topic, aggregate_id, aggregate_type, event_type, content_type, occurred_at, headers, payload)
		VALUES `+strings.Repeat(row, len(events))[len(", "):], args...)
}

// Sees asks for the row.
func (s *mysqlSession) Sees(ctx context.Context, event uuid.UUID) (seen bool, err error) {
	if err = s.conn.QueryRowContext(ctx, "SELECT COUNT(*) > 0 FROM outbox WHERE event_id = ?", event[:]).Scan(&seen); err != nil {
		return false, fmt.Errorf("look for event %s: %w", event, err)
	}
	return seen, nil
}

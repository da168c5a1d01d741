package cdctest

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Connect opens a session.
func (p *Postgres) Connect(ctx context.Context) (Session, error) {
	conn, err := pgx.Connect(ctx, p.Server.DSN(p.name, ""))
	if err != nil {
		return nil, err
	}
	return &postgresSession{conn}, nil
}

type postgresSession struct{ conn *pgx.Conn }

func (s *postgresSession) exec(ctx context.Context, sql string, args ...any) error {
	_, err := s.conn.Exec(ctx, sql, args...)
	if err != nil {
		return fmt.Errorf("%.40s: %w", sql, err)
	}
	return nil
}

func (s *postgresSession) Begin(ctx context.Context) error    { return s.exec(ctx, "BEGIN") }
func (s *postgresSession) Commit(ctx context.Context) error   { return s.exec(ctx, "COMMIT") }
func (s *postgresSession) Rollback(ctx context.Context) error { return s.exec(ctx, "ROLLBACK") }
func (s *postgresSession) Savepoint(ctx context.Context) error {
	return s.exec(ctx, "SAVEPOINT detour")
}

func (s *postgresSession) RollbackToSavepoint(ctx context.Context) error {
	return s.exec(ctx, "ROLLBACK TO detour")
}

func (s *postgresSession) Reserve(ctx context.Context, key string, n int) (first int, err error) {
	err = s.conn.QueryRow(ctx, `INSERT INTO seqs VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET seq = seqs.seq + $2
		RETURNING seq - $2 + 1`, key, n).Scan(&first)
	if err != nil {
		return 0, fmt.Errorf("reserve %d seqs of key %s: %w", n, key, err)
	}
	return first, nil
}

const insertEvents = `INSERT INTO public.outbox
	(event_id, topic, aggregate_id, aggregate_type, event_type, content_type, occurred_at, headers, payload)
	SELECT id::uuid, topic, key, kind, type, content_type, at, headers::jsonb, payload
	FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[], $8::text[], $9::bytea[])
	AS e (id, topic, key, kind, type, content_type, at, headers, payload)`

func (s *postgresSession) Insert(ctx context.Context, events []*Event) error {
	n := len(events)
	var (
		ids, keys, kinds, types, media = make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
		topics, headers                = make([]*string, n), make([]*string, n)
		times                          = make([]time.Time, n)
		payloads                       = make([][]byte, n)
	)
	for i, e := range events {
		ids[i], keys[i], kinds[i], types[i], media[i] = e.ID.String(), e.Key, e.AggregateType, e.Type, e.ContentType
		times[i], payloads[i] = e.OccurredAt, e.Payload
		if e.Topic != "" {
			topics[i] = &e.Topic
		}
		if len(e.Headers) > 0 {
			text, err := json.Marshal(e.Headers)
			if err != nil {
				return err
			}
			object := string(text)
			headers[i] = &object
		}
	}
	return s.exec(ctx, insertEvents, ids, topics, keys, kinds, types, media, times, headers, payloads)
}

// Sees asks for the row.
func (s *postgresSession) Sees(ctx context.Context, event uuid.UUID) (seen bool, err error) {
	if err = s.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM outbox WHERE event_id = $1)", event.String()).Scan(&seen); err != nil {
		return false, fmt.Errorf("look for event %s: %w", event, err)
	}
	return seen, nil
}

// Close closes the connection, within a time limit if the server is gone.
func (s *postgresSession) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx)
}

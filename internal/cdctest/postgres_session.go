package cdctest

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Connect opens a session.
func (p *Postgres) Connect(ctx context.Context) (Session, error) {
	s, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	return &postgresSession{s}, nil
}

type postgresSession struct{ *sqlSession }

func (s *postgresSession) Reserve(ctx context.Context, key string, n int) (first int, err error) {
	err = s.conn.QueryRowContext(ctx, `INSERT INTO seqs VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET seq = seqs.seq + $2
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
	if err = s.conn.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM outbox WHERE event_id = $1)", event.String()).Scan(&seen); err != nil {
		return false, fmt.Errorf("look for event %s: %w", event, err)
	}
	return seen, nil
}

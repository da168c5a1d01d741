package writertest

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/writer"
)

// maxEvents bounds what a check reads.
const maxEvents = 10000

// Reader reads events; see [SQL], [Pgx] and [Recorder]. Of a table it reads the newest 10,000.
type Reader interface {
	events(ctx context.Context, w *writer.Writer) ([]*writer.Event, error)
}

// Rows are the rows of a query.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
}

// SQL reads through a *sql.Tx, *sql.DB or *sql.Conn.
func SQL(q interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
},
) Reader {
	return reader(func(ctx context.Context, query string, read func(Rows) error) error {
		rows, err := q.QueryContext(ctx, query) //nolint:rowserrcheck // read checks it
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		return read(rows)
	})
}

// Pgx reads through a pgx.Tx, *pgx.Conn or *pgxpool.Pool.
func Pgx[R interface {
	Rows
	Close()
}](q interface {
	Query(ctx context.Context, query string, args ...any) (R, error)
},
) Reader {
	return reader(func(ctx context.Context, query string, read func(Rows) error) error {
		rows, err := q.Query(ctx, query)
		if err != nil {
			return err
		}
		defer rows.Close()
		return read(rows)
	})
}

type reader func(ctx context.Context, query string, read func(Rows) error) error

func (r reader) events(ctx context.Context, w *writer.Writer) (events []*writer.Event, err error) {
	id, headers, occurred := "HEX(event_id)", "headers", "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', occurred_at)"
	if w.Dialect() == writer.Postgres {
		id, headers, occurred = "event_id::text", "headers::text", "(extract(epoch from occurred_at) * 1000000)::bigint"
	}
	query := fmt.Sprintf(`SELECT %s, aggregate_type, aggregate_id, event_type, tenant_id, topic, partition_key, content_type, schema_id,
	schema_version, %s, payload, %s FROM %s ORDER BY created_at DESC, event_id DESC LIMIT %d`, id, headers, occurred, w.Table(), maxEvents)
	err = r(ctx, query, func(rows Rows) error {
		for rows.Next() {
			e, err := scan(rows)
			if err != nil {
				return err
			}
			events = append(events, e)
		}
		return rows.Err()
	})
	slices.Reverse(events)
	return events, err
}

func scan(rows Rows) (*writer.Event, error) {
	var (
		e                                     writer.Event
		id                                    string
		tenant, topic, key, schemaID, headers sql.NullString
		version                               sql.NullInt32
		occurred                              int64
	)
	err := rows.Scan(&id, &e.AggregateType, &e.AggregateID, &e.Type, &tenant, &topic, &key, &e.ContentType, &schemaID, &version,
		&headers, &e.Payload, &occurred)
	if err != nil {
		return nil, err
	}
	e.TenantID, e.Topic, e.PartitionKey, e.SchemaID = tenant.String, topic.String, key.String, schemaID.String
	e.SchemaVersion, e.OccurredAt, e.Tombstone = int(version.Int32), time.UnixMicro(occurred).UTC(), e.Payload == nil
	if headers.Valid {
		if err := json.Unmarshal([]byte(headers.String), &e.Headers); err != nil {
			return nil, fmt.Errorf("decode headers of %s: %w", id, err)
		}
	}
	e.ID, err = uuid.Parse(id)
	return &e, err
}

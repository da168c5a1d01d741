package writerbench

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "github.com/lib/pq"              // the driver "postgres"

	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/pgxwriter"
)

// Driver is a database driver.
type Driver struct {
	Name string
	Open func(ctx context.Context) (Session, error)
	// Batching is the minimum ratio of the cost of 100 calls with one event to one call with 100.
	Batching float64
}

// Session is a connection with at most one open transaction.
type Session interface {
	Begin(ctx context.Context) error
	Rollback(ctx context.Context) error
	Append(ctx context.Context, events ...*writer.Event) error // through the writer
	Insert(ctx context.Context, e *writer.Event) error         // the same row, by hand
	Close()
}

// Postgres returns the drivers for PostgreSQL.
func Postgres(dsn string) []Driver {
	open := func(driver string) func(context.Context) (Session, error) {
		return func(ctx context.Context) (Session, error) {
			return openSQL(ctx, driver, dsn, &sqlSession{dialect: writer.Postgres, insert: insert, row: row})
		}
	}
	return []Driver{
		{"database/sql, pgx", open("pgx"), MinBatching},
		{"database/sql, lib/pq", open("postgres"), MinBatching},
		{"pgx", func(ctx context.Context) (Session, error) { return openPgx(ctx, dsn) }, MinBatching},
	}
}

// MySQL returns the drivers for MySQL or MariaDB: go-sql-driver with interpolated arguments and with prepared statements.
// dsn returns the DSN with the given parameters.
func MySQL(name string, d writer.Dialect, dsn func(params string) string) []Driver {
	open := func(params string) func(context.Context) (Session, error) {
		return func(ctx context.Context) (Session, error) {
			return openSQL(ctx, "mysql", dsn(params), &sqlSession{dialect: d, insert: mysqlInsert, row: mysqlRow})
		}
	}
	return []Driver{
		{name + ", interpolated", open("interpolateParams=true"), MinMySQLBatching},
		{name + ", prepared", open(""), MinMySQLBatching},
	}
}

// mysqlInsert is insert for MySQL and MariaDB.
const mysqlInsert = `INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, tenant_id, topic, partition_key,
	content_type, schema_id, schema_version, headers, payload, occurred_at, created_at)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// mysqlRow returns the arguments of mysqlInsert.
func mysqlRow(e *writer.Event) ([]any, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	return values(id[:], e)
}

// insert is a hand-written INSERT.
const insert = `INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, tenant_id, topic, partition_key,
	content_type, schema_id, schema_version, headers, payload, occurred_at, created_at)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`

// row returns the arguments of insert.
func row(e *writer.Event) ([]any, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	return values(id.String(), e)
}

func values(id any, e *writer.Event) ([]any, error) {
	headers, err := json.Marshal(e.Headers)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return []any{
		id, e.AggregateType, e.AggregateID, e.Type, e.TenantID, nil, nil,
		"application/json", nil, nil, string(headers), e.Payload, now, now,
	}, nil
}

// event returns a small order with a tracing header.
func event() *writer.Event {
	return &writer.Event{
		AggregateType: "Order", AggregateID: "o-123456", Type: "OrderPlaced", TenantID: "acme",
		Headers: map[string]string{"traceparent": traceparent}, Payload: payload(),
	}
}

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func payload() []byte {
	return []byte(`{"id":"o-123456","customer":"c-98765","currency":"EUR","total":1999,"lines":[` +
		`{"sku":"A-1001","name":"Espresso cup","quantity":2,"price":499},{"sku":"B-2002","name":"Saucer","quantity":2,"price":299},` +
		`{"sku":"C-3003","name":"Spoon","quantity":2,"price":201}],"address":{"street":"Main Street 1","city":"Springfield"}}`)
}

// Events returns n events to append once.
func Events(n int) []*writer.Event {
	all := make([]*writer.Event, n)
	for i := range all {
		all[i] = event()
	}
	return all
}

type sqlSession struct {
	dialect writer.Dialect
	insert  string                             // by hand
	row     func(*writer.Event) ([]any, error) // its arguments

	pool   *sql.DB
	tx     *sql.Tx
	events *writer.Writer
}

func openSQL(ctx context.Context, driver, dsn string, s *sqlSession) (_ Session, err error) {
	if s.events, err = writer.New(s.dialect); err != nil {
		return nil, err
	}
	if s.pool, err = sql.Open(driver, dsn); err != nil {
		return nil, err
	}
	s.pool.SetMaxOpenConns(1)
	return s, s.pool.PingContext(ctx)
}

func (s *sqlSession) Begin(ctx context.Context) (err error) {
	s.tx, err = s.pool.BeginTx(ctx, nil)
	return err
}

func (s *sqlSession) Rollback(context.Context) error { return s.tx.Rollback() }
func (s *sqlSession) Close()                         { _ = s.pool.Close() }

func (s *sqlSession) Append(ctx context.Context, events ...*writer.Event) error {
	return s.events.Append(ctx, s.tx, events...)
}

func (s *sqlSession) Insert(ctx context.Context, e *writer.Event) error {
	args, err := s.row(e)
	if err != nil {
		return err
	}
	_, err = s.tx.ExecContext(ctx, s.insert, args...)
	return err
}

type pgxSession struct {
	conn   *pgx.Conn
	tx     pgx.Tx
	events *writer.Writer
}

func openPgx(ctx context.Context, dsn string) (Session, error) {
	w, err := writer.New(writer.Postgres)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	return &pgxSession{conn: conn, events: w}, nil
}

func (s *pgxSession) Begin(ctx context.Context) (err error) {
	s.tx, err = s.conn.Begin(ctx)
	return err
}

func (s *pgxSession) Rollback(ctx context.Context) error { return s.tx.Rollback(ctx) }
func (s *pgxSession) Close()                             { _ = s.conn.Close(context.Background()) }

func (s *pgxSession) Append(ctx context.Context, events ...*writer.Event) error {
	return s.events.Append(ctx, pgxwriter.Tx(s.tx), events...)
}

func (s *pgxSession) Insert(ctx context.Context, e *writer.Event) error {
	args, err := row(e)
	if err != nil {
		return err
	}
	_, err = s.tx.Exec(ctx, insert, args...)
	return err
}

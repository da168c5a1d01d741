package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// StartedQuery tells servers apart, also a primary from its standby, and through a pooler.
const StartedQuery = `SELECT extract(epoch FROM pg_postmaster_start_time())::text`

// SameServer returns when the server of both connections started, or an error if they lead to two servers. Each connection
// chooses among the hosts of the dsn, or the addresses of a name, for itself; the slot and the publication of one server
// say nothing about the WAL of another.
func SameServer(ctx context.Context, sql *pgx.Conn, repl *pgconn.PgConn) (string, error) {
	started, err := Started(ctx, sql)
	if err != nil {
		return "", err
	}
	results, err := repl.Exec(ctx, StartedQuery).ReadAll()
	if err != nil {
		return "", fmt.Errorf("read when the server started: %w", err)
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || string(results[0].Rows[0][0]) != started {
		return "", ErrTwoServers()
	}
	return started, nil
}

// Started returns when the server started, which tells it apart.
func Started(ctx context.Context, sql *pgx.Conn) (started string, err error) {
	if err := sql.QueryRow(ctx, StartedQuery).Scan(&started); err != nil {
		return "", fmt.Errorf("read when the server started: %w", err)
	}
	return started, nil
}

// ErrTwoServers may pass: after a failover a name or an address leads to one server again.
func ErrTwoServers() error {
	return cdc.Fixable("name the primary alone in source.postgres.dsn, or add target_session_attrs=read-write",
		"the connections of source.postgres.dsn lead to different servers")
}

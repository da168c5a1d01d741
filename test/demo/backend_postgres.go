package main

import (
	"context"
	"database/sql"
	"fmt"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

// postgres is a PostgreSQL backend.
type postgres struct{ *testenv.PostgresServer }

func (p postgres) title() string           { return fmt.Sprintf("PostgreSQL %d", p.Version) }
func (p postgres) unsafe() string          { return "PostgreSQL without fsync" }
func (p postgres) driver() string          { return "pgx" }
func (p postgres) ownerDSN() string        { return p.DSN(database, roleShop) }
func (p postgres) dialect() writer.Dialect { return writer.Postgres }
func (p postgres) open() cdctest.Database  { return cdctest.OpenPostgres(p.PostgresServer, database) }

func (p postgres) source() map[string]any {
	return map[string]any{"postgres": map[string]any{"dsn": p.DSN(database, roleRelay)}}
}

func (p postgres) prepare(ctx context.Context) error {
	if err := p.CreateDatabase(ctx, database); err != nil {
		return fmt.Errorf("create database %s: %w", database, err)
	}
	for _, statement := range []string{
		"CREATE ROLE " + roleShop + " LOGIN",
		"ALTER DATABASE " + database + " OWNER TO " + roleShop,
		"CREATE ROLE " + roleRelay + " LOGIN REPLICATION",
	} {
		if err := p.Exec(ctx, database, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

func (p postgres) changeAccount(ctx context.Context, _ *sql.DB, tx *sql.Tx, id string, n int) (changes int, err error) {
	err = tx.QueryRowContext(ctx, `INSERT INTO accounts VALUES ($1, $2)
		ON CONFLICT (id) DO UPDATE SET changes = accounts.changes + $2 RETURNING changes`, id, n).Scan(&changes)
	return changes, err
}

package main

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

// backend is a database server that the demo has started, and what depends on its kind.
type backend interface {
	Addr() string
	PID() int
	LogPath() string
	Close() error

	// title is the product and its version, unsafe the settings that make it fast and unsafe.
	title() string
	unsafe() string
	// prepare creates the database and both roles.
	prepare(ctx context.Context) error
	// source is the relay's setting source, with its role.
	source() map[string]any
	// driver, ownerDSN and dialect are for the shop's connections and its writer.
	driver() string
	ownerDSN() string
	dialect() writer.Dialect
	// open returns the prepared database for the checkers.
	open() cdctest.Database
	// changeAccount adds n to the changes of an account, which may be new, and returns the sum. db is for statements outside of
	// the transaction.
	changeAccount(ctx context.Context, db *sql.DB, tx *sql.Tx, id string, n int) (changes int, err error)
}

// Kinds of database, by their names in package testenv.
const (
	kindPostgres = "postgres"
	kindMySQL    = testenv.MySQLFlavor
	kindMariaDB  = testenv.MariaDBFlavor

	kinds = kindPostgres + ", " + kindMySQL + " and " + kindMariaDB
)

// startBackend starts a server.
func startBackend(ctx context.Context, kind string) (backend, error) {
	if kind == kindPostgres {
		server, err := testenv.StartPostgres(ctx, testenv.PostgresOptions{Version: testenv.AnyPostgres})
		if err != nil {
			return nil, fmt.Errorf("start PostgreSQL: %w", err)
		}
		return postgres{server}, nil
	}
	server, err := testenv.StartMySQL(ctx, testenv.MySQLOptions{Flavor: kind})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", product(kind), err)
	}
	return mysql{server}, nil
}

package main

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

// backend is a server of one kind of database, a real one and our own, and all that differs between the kinds.
type backend interface {
	Addr() string
	PID() int
	LogPath() string
	Close() error

	// title is the product and its version, unsafe what it leaves out to be fast.
	title() string
	unsafe() string
	// prepare makes the database and both roles.
	prepare(ctx context.Context) error
	// source is the relay's setting source, with its role.
	source() map[string]any
	// driver, ownerDSN and dialect are how the shop connects and how its writer speaks.
	driver() string
	ownerDSN() string
	dialect() writer.Dialect
	// open is the prepared database to the checkers.
	open() cdctest.Database
	// changeOrder adds n to the changes of an order, which may be new, and returns them. db is for what
	// is committed at once, beside the transaction.
	changeOrder(ctx context.Context, db *sql.DB, tx *sql.Tx, id string, n int) (changes int, err error)
}

// Kinds of database, by the names that package testenv fetches them by.
const (
	kindPostgres = "postgres"
	kindMySQL    = testenv.MySQLFlavor
	kindMariaDB  = testenv.MariaDBFlavor

	kinds = kindPostgres + ", " + kindMySQL + " and " + kindMariaDB
)

// startBackend starts a server that was fetched before.
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

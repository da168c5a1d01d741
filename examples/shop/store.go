package main

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/cdc-relay/cdc-relay/writer"
)

// migrations are what 'cdc-relay schema print' prints, and the shop's own tables.
//
//go:embed migrations
var migrations embed.FS

// database is a pool, and the transactions of the libraries on it. MariaDB's SQL is MySQL's here.
type database struct {
	*sql.DB

	transactions *writer.SQLDB[*sql.Tx]
}

func openDatabase(kind, dsn string) (database, error) {
	driver, dialect := "mysql", writer.MySQL
	switch kind {
	case "postgres":
		driver, dialect = "pgx", writer.Postgres
	case "mysql":
	case "mariadb":
		dialect = writer.MariaDB
	default:
		return database{}, fmt.Errorf("unknown database %q: use postgres, mysql or mariadb", kind)
	}
	db, err := sql.Open(driver, dsn)
	return database{db, writer.SQL(db, dialect)}, err
}

// migrate creates the tables that are missing. A real application has a tool for it: 'cdc-relay schema print --format'
// writes files for several.
func (db database) migrate(ctx context.Context) error {
	files, err := fs.Glob(migrations, "migrations/"+map[bool]string{true: "postgres", false: "mysql"}[db.isPostgres()]+"/*.sql")
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := migrations.ReadFile(file)
		if err != nil {
			return err
		}
		for statement := range strings.SplitSeq(strings.TrimSpace(string(text)), ";\n") {
			if _, err := db.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return nil
}

func (db database) isPostgres() bool { return db.transactions.Dialect() == writer.Postgres }

// rebind writes the parameters ? as PostgreSQL does, $1, $2, ...
func (db database) rebind(query string) string {
	if !db.isPostgres() {
		return query
	}
	parts := strings.Split(query, "?")
	for i := range parts[1:] {
		parts[i] += "$" + strconv.Itoa(i+1)
	}
	return strings.Join(parts, "")
}

func (db database) insertOrder(ctx context.Context, tx *sql.Tx, o *order) error {
	_, err := tx.ExecContext(ctx, db.rebind(`INSERT INTO orders (id, customer, item, quantity, status) VALUES (?, ?, ?, ?, ?)`),
		o.ID, o.Customer, o.Item, o.Quantity, o.Status)
	return err
}

var errNoOrder = errors.New("there is no such order")

// querier is a pool or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// loadOrder loads an order of a customer, with suffix FOR UPDATE to change it.
func (db database) loadOrder(ctx context.Context, from querier, customer, id, suffix string) (*order, error) {
	o := &order{}
	err := from.QueryRowContext(ctx, db.rebind(`SELECT id, customer, item, quantity, status FROM orders WHERE id = ? AND customer = ? `)+suffix, id, customer).
		Scan(&o.ID, &o.Customer, &o.Item, &o.Quantity, &o.Status)
	if errors.Is(err, sql.ErrNoRows) {
		err = errNoOrder
	}
	return o, err
}

func (db database) updateStatus(ctx context.Context, tx *sql.Tx, o *order) error {
	_, err := tx.ExecContext(ctx, db.rebind(`UPDATE orders SET status = ? WHERE id = ?`), o.Status, o.ID)
	return err
}

// reserve changes the reserved pieces of an item and reports whether the item is known.
func (db database) reserve(ctx context.Context, tx *sql.Tx, item string, pieces int) (known bool, err error) {
	result, err := tx.ExecContext(ctx, db.rebind(`UPDATE stock SET reserved = reserved + ? WHERE item = ?`), pieces, item) //nolint:gosec // the query is a constant
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

// mysql is a MySQL or MariaDB backend.
type mysql struct{ *testenv.MySQLServer }

func product(flavor string) string {
	if flavor == kindMariaDB {
		return "MariaDB"
	}
	return "MySQL"
}

func (m mysql) title() string          { return product(m.Flavor) + " " + m.Version }
func (m mysql) unsafe() string         { return product(m.Flavor) + " with fsync of its binlog only" }
func (m mysql) driver() string         { return "mysql" }
func (m mysql) ownerDSN() string       { return m.UserDSN(roleShop, "", database, "") }
func (m mysql) open() cdctest.Database { return cdctest.OpenMySQL(m.MySQLServer, database) }

func (m mysql) dialect() writer.Dialect {
	if m.Flavor == kindMariaDB {
		return writer.MariaDB
	}
	return writer.MySQL
}

func (m mysql) source() map[string]any {
	return map[string]any{"mysql": map[string]any{"id": database, "dsn": m.UserDSN(roleRelay, "", database, "")}}
}

// prepare grants the relay's user what `cdc-relay setup --print` prints for an administrator, and the right to see the
// database, because rights on a table can only be granted once it exists.
func (m mysql) prepare(ctx context.Context) error {
	if err := m.CreateDatabase(ctx, database); err != nil {
		return fmt.Errorf("create database %s: %w", database, err)
	}
	if err := m.CreateUser(ctx, roleShop, "", "", "ALL ON "+database+".*"); err != nil {
		return fmt.Errorf("create user %s: %w", roleShop, err)
	}
	if err := m.CreateUser(ctx, roleRelay, "", "", m.ReplicationRights()+" ON *.*", "SELECT ON "+database+".*"); err != nil {
		return fmt.Errorf("create user %s: %w", roleRelay, err)
	}
	return nil
}

// changeAccount inserts a new account outside of the transaction: two transactions that insert the same account deadlock when a
// third one rolls it back.
func (m mysql) changeAccount(ctx context.Context, db *sql.DB, tx *sql.Tx, id string, n int) (changes int, err error) {
	changes, found, err := m.updateAccount(ctx, tx, id, n)
	if err != nil || found {
		return changes, err
	}
	if _, err := db.ExecContext(ctx, "INSERT IGNORE INTO accounts VALUES (?, 0)", id); err != nil {
		return 0, err
	}
	if changes, found, err = m.updateAccount(ctx, tx, id, n); err == nil && !found {
		err = errors.New("the account does not exist")
	}
	return changes, err
}

func (m mysql) updateAccount(ctx context.Context, tx *sql.Tx, id string, n int) (changes int, found bool, err error) {
	result, err := tx.ExecContext(ctx, "UPDATE accounts SET changes = LAST_INSERT_ID(changes + ?) WHERE id = ?", n, id)
	if err != nil {
		return 0, false, err
	}
	rows, errRows := result.RowsAffected()
	last, errLast := result.LastInsertId()
	return int(last), rows == 1, errors.Join(errRows, errLast)
}

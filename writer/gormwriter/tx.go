package gormwriter

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/cdc-relay/cdc-relay/writer"
)

// Tx returns the transaction of db, which stays GORM's: commit and roll back with GORM only.
//
// The error wraps [writer.ErrNoTransaction] if db is in none: outside of Transaction and Begin, and in a hook of a model with
// SkipDefaultTransaction. Also refused are a dry run, in which GORM writes nothing, and a db that holds an error, whose
// transaction GORM rolls back.
func Tx(db *gorm.DB) (writer.Tx, error) {
	switch {
	case db == nil || db.Statement == nil:
		return nil, fmt.Errorf("take GORM's transaction: %w: the *gorm.DB is nil: pass that of the transaction", writer.ErrNoTransaction)
	case db.Error != nil:
		return nil, fmt.Errorf("take GORM's transaction: %w: return this error from the transaction, or use a new session", db.Error)
	case db.DryRun:
		return nil, errors.New("take GORM's transaction: DryRun is set, so GORM writes nothing: append without DryRun only")
	}
	pool := db.Statement.ConnPool
	if prepared, ok := pool.(*gorm.PreparedStmtTX); ok {
		pool = prepared.Tx // the writer's statements need no place in GORM's cache
	}
	tx, ok := pool.(writer.Tx)
	if !ok {
		return nil, fmt.Errorf("take GORM's transaction: %w: call it inside db.Transaction, with the *gorm.DB that it passes", writer.ErrNoTransaction)
	}
	return tx, nil
}

// DB returns the [writer.DB] for GORM. In a function that it is given to, nested calls of Transaction are savepoints, see
// [writer.Unit.Savepoint].
func DB(db *gorm.DB, d writer.Dialect) *writer.SQLDB[*gorm.DB] {
	return writer.ORM(d, func(ctx context.Context, o *sql.TxOptions) (*gorm.DB, error) {
		tx := db.WithContext(ctx).Begin(o)
		return tx, tx.Error
	}, func(db *gorm.DB) sqlTx {
		tx, err := Tx(db)
		if err != nil {
			return refused{err}
		}
		return tx.(sqlTx) // the pool of a transaction, which GORM itself queries
	})
}

type sqlTx interface {
	writer.Tx
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// refused is a *gorm.DB that is not in a transaction.
type refused struct{ err error }

func (r refused) ExecContext(context.Context, string, ...any) (sql.Result, error) { return nil, r.err }

func (r refused) QueryContext(context.Context, string, ...any) (*sql.Rows, error) { return nil, r.err }
func (r refused) Commit() error                                                   { return r.err }
func (r refused) Rollback() error                                                 { return r.err }

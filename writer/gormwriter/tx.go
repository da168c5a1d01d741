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
	tx, err := pooled(db)
	if err == nil {
		err = usable(db)
	}
	if err != nil {
		return nil, fmt.Errorf("take GORM's transaction: %w", err)
	}
	return tx, nil
}

func pooled(db *gorm.DB) (sqlTx, error) {
	if db == nil || db.Statement == nil {
		return nil, fmt.Errorf("%w: the *gorm.DB is nil: pass that of the transaction", writer.ErrNoTransaction)
	}
	pool := db.Statement.ConnPool
	if prepared, ok := pool.(*gorm.PreparedStmtTX); ok {
		pool = prepared.Tx // the writer's statements need no place in GORM's cache
	}
	tx, ok := pool.(sqlTx)
	if !ok {
		return nil, fmt.Errorf("%w: call it inside db.Transaction, with the *gorm.DB that it passes", writer.ErrNoTransaction)
	}
	return tx, nil
}

func usable(db *gorm.DB) error {
	if db.Error != nil {
		return fmt.Errorf("%w: return this error from the transaction, or use a new session", db.Error)
	}
	if db.DryRun {
		return errors.New("DryRun is set, so GORM writes nothing: append without DryRun only")
	}
	return nil
}

// DB returns the [writer.DB] for GORM. In a function that it is given to, nested calls of Transaction are savepoints, see
// [writer.Unit.Savepoint].
func DB(db *gorm.DB, d writer.Dialect) *writer.SQLDB[*gorm.DB] {
	return writer.ORM(d, func(ctx context.Context, o *sql.TxOptions) (*gorm.DB, error) {
		tx := db.WithContext(ctx).Begin(o)
		return tx, tx.Error
	}, func(db *gorm.DB) sqlTx {
		tx, err := pooled(db)
		if err != nil {
			return refused{tx: noTx{err}, err: err}
		}
		if err := usable(db); err != nil {
			return refused{tx, err}
		}
		return tx
	})
}

type sqlTx interface {
	writer.Tx
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// refused is a transaction whose *gorm.DB takes no statement. It ends all the same, or its connection would stay open.
type refused struct {
	tx  interface{ Rollback() error }
	err error
}

func (r refused) ExecContext(context.Context, string, ...any) (sql.Result, error) { return nil, r.err }

func (r refused) QueryContext(context.Context, string, ...any) (*sql.Rows, error) { return nil, r.err }

func (r refused) Rollback() error { return r.tx.Rollback() }

// Commit rolls back, with the words by which the writer knows that.
func (r refused) Commit() error {
	return errors.Join(fmt.Errorf("commit unexpectedly resulted in rollback: %w", r.err), r.tx.Rollback())
}

// noTx is a *gorm.DB outside of a transaction.
type noTx struct{ error }

func (n noTx) Rollback() error { return n.error }

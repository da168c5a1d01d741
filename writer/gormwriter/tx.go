package gormwriter

import (
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

package writer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// runSavepoint is the first statement of [Run] on MySQL and MariaDB. After a deadlock they have rolled back the whole transaction, with
// its savepoints, and commit each later statement at once, or with autocommit=0 begin another transaction. PostgreSQL refuses later
// statements, and the commit.
const runSavepoint = "cdc_relay_run"

// savepointUnknown is ER_SP_DOES_NOT_EXIST, which is also the error for a savepoint.
const savepointUnknown = 1305

// errEnded means that the function has ended the transaction, or has hidden that the server did.
var errEnded = fmt.Errorf("run transaction: %w: it was rolled back or committed before the function returned: return the errors of statements, and leave the transaction open", ErrNoTransaction)

func setSavepoint[T any](ctx context.Context, db DB[T], tx T) error {
	if db.Dialect() == Postgres {
		return nil
	}
	if _, err := db.Exec(ctx, tx, "SAVEPOINT "+runSavepoint); err != nil {
		return fmt.Errorf("set savepoint: %w", err)
	}
	return nil
}

// verifySavepoint is called before the events are appended: outside of the transaction they would be committed alone.
func verifySavepoint[T any](ctx context.Context, db DB[T], tx T) error {
	if db.Dialect() == Postgres {
		return nil
	}
	_, err := db.Exec(ctx, tx, "RELEASE SAVEPOINT "+runSavepoint)
	switch {
	case mysqlNumber(err) == savepointUnknown:
		return errEnded
	case errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil: // database/sql ends it when the context does
		return errEnded
	case err == nil || errors.Is(err, sql.ErrTxDone): // Commit returns the context's error
		return nil
	default:
		return fmt.Errorf("verify transaction: %w", err)
	}
}

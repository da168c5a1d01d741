package inbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/cdc-relay/cdc-relay/inbox/internal/sqltext"
	"github.com/cdc-relay/cdc-relay/writer"
)

// mark is a number by which a transaction knows its own row again on MySQL and MariaDB. A handler that hides the error of a
// deadlock works on outside of it, where the row of another process may be, which was waiting for the first one.
type mark int

func newMark() mark { return mark(1 + rand.IntN(999_999)) } //nolint:gosec // no secret

// handledAt is the value of a row's handled_at: the mark is the fraction of its second.
func (k mark) handledAt(s *sqltext.Statement) string {
	if s.Postgres() {
		return "DEFAULT"
	}
	return "NOW() + INTERVAL " + strconv.Itoa(int(k)) + " MICROSECOND"
}

// errEnded means that the handler has ended the transaction, or has hidden that the server did.
var errEnded = fmt.Errorf("%w: the transaction was rolled back or committed before the handler returned: return the errors of statements, and leave the transaction open", writer.ErrNoTransaction)

// verify looks whether the row is still there. PostgreSQL refuses all statements, and the commit, after an error. Without an answer the
// connection is gone: a statement whose context had ended has closed it, and the handler has hidden that, unless [rollback] finds that the
// database cannot be reached.
func (in *Inbox[Tx]) verify(ctx context.Context, tx Tx, id MessageID, marked mark) error {
	if in.db.Dialect() == writer.Postgres {
		return nil
	}
	query, args := in.statement("SELECT 1 FROM ", " WHERE consumer = ").Text(in.consumer).Add(" AND source = ").Text(id.Source).
		Add(" AND message_id = ").Text(id.ID).Add(" AND MICROSECOND(handled_at) = ").Int(int64(marked)).SQL()
	rows, err := in.db.Query(ctx, tx, query, args...)
	found := false
	if err == nil {
		found = rows.Next()
		err = errors.Join(rows.Err(), rows.Close())
	}
	if state, number := writer.ServerError(err); !found && state == "" && number == 0 && ctx.Err() == nil {
		return errEnded
	}
	if err != nil {
		return databaseError("read "+in.table, in.table, err)
	}
	return nil
}

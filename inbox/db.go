package inbox

import (
	"database/sql"

	"github.com/cdc-relay/cdc-relay/writer"
)

// DB begins transactions of type Tx, see [writer.DB].
type DB[Tx any] = writer.DB[Tx]

// Rows are the rows of a query.
type Rows = writer.Rows

// SQLDB is the [DB] of database/sql.
type SQLDB = writer.SQLDB[*sql.Tx]

// SQL returns the DB for a pool of database/sql, with any driver that package writer supports.
func SQL(db *sql.DB, d writer.Dialect) *SQLDB { return writer.SQL(db, d) }

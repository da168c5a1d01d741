package binlog

import (
	"context"
	"database/sql"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// account returns the account that the server took us for, as SQL reads it. A server that does not say is no reason
// to fail: it is for texts.
func account(ctx context.Context, db *sql.DB) string {
	var role string
	if err := db.QueryRowContext(ctx, `SELECT CURRENT_USER()`).Scan(&role); err != nil {
		return "the relay's user"
	}
	return accountOf(role)
}

// accountOf quotes user@host. A user may hold an @, a host not.
func accountOf(role string) string {
	i := strings.LastIndexByte(role, '@')
	if i < 0 {
		return mysqlName(role)
	}
	return mysqlName(role[:i]) + "@" + mysqlName(role[i+1:])
}

// grantLog is the statement that gives an account all that it takes to read the log and to ask where it ends. The
// server names one missing right at a time; to grant one twice does no harm.
func grantLog(f cdc.Flavor, account string) string {
	rights := "REPLICATION SLAVE, REPLICATION CLIENT"
	if f == cdc.MariaDB { // which split REPLICATION CLIENT in two with 10.5
		rights = "REPLICATION SLAVE, BINLOG MONITOR, SLAVE MONITOR"
	}
	return "GRANT " + rights + " ON *.* TO " + account
}

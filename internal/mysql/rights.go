package mysql

import (
	"context"
	"database/sql"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Account returns the account that the server took us for, as SQL reads it. A server that does not say is no reason
// to fail: it is for texts.
func Account(ctx context.Context, db *sql.DB) string {
	var role string
	if err := db.QueryRowContext(ctx, `SELECT CURRENT_USER()`).Scan(&role); err != nil {
		return "the relay's user"
	}
	return AccountOf(role)
}

// AccountOf quotes user@host. A user may hold an @, a host not.
func AccountOf(role string) string {
	i := strings.LastIndexByte(role, '@')
	if i < 0 {
		return QuoteName(role)
	}
	return QuoteName(role[:i]) + "@" + QuoteName(role[i+1:])
}

// GrantLog is the statement that gives an account all that it takes to read the log and to ask where it ends. The
// server names one missing right at a time; to grant one twice does no harm.
func GrantLog(f cdc.Flavor, account string) string {
	rights := "REPLICATION SLAVE, REPLICATION CLIENT"
	if f == cdc.MariaDB { // which split REPLICATION CLIENT in two with 10.5
		rights = "REPLICATION SLAVE, BINLOG MONITOR, SLAVE MONITOR"
	}
	return "GRANT " + rights + " ON *.* TO " + account
}

// QuoteName quotes a name in SQL.
func QuoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

package outbox

import (
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// The runners on MySQL and MariaDB.
const (
	// RunnerMySQLAdmin grants rights and changes settings: root, or the administrator of a managed service.
	RunnerMySQLAdmin Runner = "an administrator, who grants rights and changes settings"
	// RunnerMySQLOwner creates tables.
	RunnerMySQLOwner Runner = "the owner of the table, with CREATE and ALTER on the database"
)

// MySQLSetup returns the steps that prepare a MySQL or MariaDB server for the relay: settings, tables, and last the rights on them. They can
// be repeated. The first position is stored in the relay's checkpoint, not by SQL.
func MySQLSetup(o SetupOptions) Steps {
	admin := Step{Runner: RunnerMySQLAdmin, Statements: o.Settings}
	owner := Step{Runner: RunnerMySQLOwner}
	for _, t := range o.Make {
		owner.Statements = append(owner.Statements, MySQLTable(t).Up...)
	}
	for _, t := range o.Maintain {
		owner.Statements = append(owner.Statements, MySQLMaintenance(o.Flavor, t, MySQLRoutine(t))...)
	}
	var grants []Statement
	if o.Role != "" {
		account := MySQLAccount(o.Role)
		admin.Statements = append(admin.Statements, Statement{
			Comment: "If the user does not exist: CREATE USER " + account + " IDENTIFIED BY '...'.",
			SQL:     MySQLLogGrant(o.Flavor, account),
		})
		if len(o.Mark) > 0 && o.Flavor != cdc.MariaDB { // MariaDB's BINLOG ADMIN may purge binlogs
			admin.Statements = append(admin.Statements, mysqlImageGrant(account))
		}
		grants = mysqlTableGrants(&o, account)
	}
	// Rights on a table can only be granted once it exists, and its owner may not be allowed to grant them.
	var steps Steps
	for _, step := range []Step{admin, owner, {RunnerMySQLAdmin, grants}} {
		if len(step.Statements) > 0 {
			steps = append(steps, step)
		}
	}
	return steps
}

// MySQLLogGrant is the statement that gives an account all that it takes to read the binlog and to ask where it ends. The
// server names one missing right at a time; to grant one twice does no harm. MariaDB 10.5 split REPLICATION CLIENT in two.
func MySQLLogGrant(f cdc.Flavor, account string) string {
	rights := "REPLICATION SLAVE, REPLICATION CLIENT"
	if f == cdc.MariaDB {
		rights = "REPLICATION SLAVE, BINLOG MONITOR, SLAVE MONITOR"
	}
	return "GRANT " + rights + " ON *.* TO " + account
}

// mysqlTableGrants let the relay see the tables' definitions, read rows to fill a gap, maintain partitions, and delete and mark rows.
func mysqlTableGrants(o *SetupOptions, account string) []Statement {
	var statements []Statement
	grant := func(right, on string) {
		statements = append(statements, Statement{SQL: "GRANT " + right + " ON " + on + " TO " + account})
	}
	for _, t := range o.Read {
		grant("SELECT", t.MySQL())
	}
	for _, t := range o.Maintain {
		grant("EXECUTE", "PROCEDURE "+MySQLRoutine(t).MySQL())
	}
	for _, t := range o.Delete {
		grant("DELETE", t.MySQL())
	}
	for _, c := range o.Mark {
		grant("SELECT, UPDATE ("+c.list(QuoteMySQL)+")", c.Table.MySQL())
	}
	return statements
}

// mysqlImageGrant lets the relay set binlog_row_image in its session.
func mysqlImageGrant(account string) Statement {
	return Statement{Comment: "Not necessary: with it the binlog gets the marked columns of a row, and not the whole row twice.", SQL: "GRANT SESSION_VARIABLES_ADMIN ON *.* TO " + account}
}

// MySQLAccount returns "user" or "user@host" quoted for SQL. A user name may contain an @, a host may not.
func MySQLAccount(s string) string {
	user, host := s, "%"
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		user, host = s[:i], s[i+1:]
	}
	return QuoteMySQL(user) + "@" + QuoteMySQL(host)
}

// MySQLTeardown returns the steps that drop tables with all their events, what was taken out of them, and the procedures
// that maintain them. They can be repeated. The relay has no other objects in the server.
func MySQLTeardown(drop, maintained []Name) Steps {
	if len(drop) == 0 {
		return nil
	}
	owner := Step{Runner: RunnerMySQLOwner}
	for _, t := range drop {
		owner.Statements = append(owner.Statements, Statement{SQL: "DROP TABLE IF EXISTS " + t.MySQL()})
		owner.Statements = append(owner.Statements, dropMySQLTakenOut(t)...)
	}
	for _, t := range maintained {
		owner.Statements = append(owner.Statements, Statement{SQL: "DROP PROCEDURE IF EXISTS " + MySQLRoutine(t).MySQL()})
	}
	return Steps{owner}
}

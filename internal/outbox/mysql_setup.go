package outbox

import (
	"fmt"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// The runners on MySQL and MariaDB.
const (
	// RunnerMySQLAdmin grants rights and changes settings: root, or what a managed service has in its place.
	RunnerMySQLAdmin Runner = "an administrator, who grants rights and changes settings"
	// RunnerMySQLOwner makes tables.
	RunnerMySQLOwner Runner = "the owner of the table, with CREATE and ALTER on the database"
)

// MySQLSetupOptions say what the relay needs in a MySQL or MariaDB server.
type MySQLSetupOptions struct {
	// Flavor is which of the two it is; "" is cdc.MySQL.
	Flavor cdc.Flavor
	// Make lists the tables to make; none where they exist already.
	Make []TableOptions
	// Read lists the tables that the relay reads, at least one.
	Read []Name
	// User is the account that the relay connects as, "relay" (from anywhere) or "relay@10.0.%"; "" leaves
	// its grants out.
	User string
	// Settings are what the server's must be changed to, see [MySQLSettings]; none where they are right.
	Settings []Setting
}

// MySQLSetup returns what makes a MySQL or MariaDB server ready for the relay: settings, rights and tables.
// The first position is not a matter of SQL: it is stored in the relay's checkpoint. It is safe to run again.
func MySQLSetup(o MySQLSetupOptions) (Steps, error) {
	if len(o.Read) == 0 {
		return nil, cdc.Fixable("name a table under tables", "no table is configured")
	}
	admin := Step{Runner: RunnerMySQLAdmin, Statements: MySQLSettings(o.Flavor, o.Settings)}
	owner := Step{Runner: RunnerMySQLOwner}
	for _, t := range o.Make {
		script, err := MySQLTable(t)
		if err != nil {
			return nil, err
		}
		owner.Statements = append(owner.Statements, script.Up...)
	}
	var grants []Statement
	if o.User != "" {
		account, err := mysqlAccount(o.User)
		if err != nil {
			return nil, err
		}
		admin.Statements = append(admin.Statements, mysqlReplicationGrant(o.Flavor, account))
		grants = mysqlTableGrants(o.Read, account)
	}
	// A right on a table can only be granted once there is one, and the owner may not be allowed to.
	var steps Steps
	for _, step := range []Step{admin, owner, {RunnerMySQLAdmin, grants}} {
		if len(step.Statements) > 0 {
			steps = append(steps, step)
		}
	}
	return steps, nil
}

// mysqlReplicationGrant returns what lets the relay read the binlog and ask where it ends. MariaDB split
// REPLICATION CLIENT in two with 10.5.
func mysqlReplicationGrant(f cdc.Flavor, account string) Statement {
	rights := "REPLICATION SLAVE, REPLICATION CLIENT"
	if f == cdc.MariaDB {
		rights = "REPLICATION SLAVE, BINLOG MONITOR, SLAVE MONITOR"
	}
	return Statement{
		Comment: "Where the account is missing: CREATE USER " + account + " IDENTIFIED BY '...'.",
		SQL:     "GRANT " + rights + " ON *.* TO " + account,
	}
}

// mysqlTableGrants let the relay see the tables' definitions, and read them to fill a gap.
func mysqlTableGrants(tables []Name, account string) []Statement {
	statements := make([]Statement, len(tables))
	for i, t := range tables {
		statements[i].SQL = "GRANT SELECT ON " + t.MySQL() + " TO " + account
	}
	return statements
}

// mysqlAccount returns "user" or "user@host" as SQL reads it. A user may hold an @, a host not.
func mysqlAccount(s string) (string, error) {
	user, host := s, "%"
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		user, host = s[:i], s[i+1:]
	}
	if user == "" || host == "" || strings.ContainsRune(s, 0) {
		return "", cdc.Fixable("write user or user@host", "account %q is not valid", s)
	}
	return QuoteMySQL(user) + "@" + QuoteMySQL(host), nil
}

// Setting is one of the server's settings.
type Setting struct{ Name, Value string }

// MySQLSettings returns the statements that change the settings, now and after a restart. What cannot be
// changed in a running server has only a comment to it.
func MySQLSettings(f cdc.Flavor, settings []Setting) []Statement {
	var statements []Statement
	for _, s := range settings {
		statements = append(statements, s.statements(f)...)
	}
	return statements
}

// statements changes one setting. SET PERSIST is MySQL's; MariaDB has nothing like it.
func (s Setting) statements(f cdc.Flavor) []Statement {
	file := fmt.Sprintf("in my.cnf under [mysqld]: %s = %s", s.Name, s.Value)
	set := "SET PERSIST "
	if f == cdc.MariaDB {
		set, file = "SET GLOBAL ", strings.Replace(file, "[mysqld]", "[mariadb]", 1)
	}
	switch s.Name {
	case "log_bin":
		return []Statement{{Comment: "It needs a restart, " + file, SQL: "SELECT @@global.log_bin"}}
	case "gtid_mode":
		return gtidMode(s.Value)
	}
	statement := Statement{SQL: set + s.Name + " = " + mysqlValue(s.Value)}
	if f == cdc.MariaDB {
		statement.Comment = "And for the next start, " + file
	}
	if perSession(s.Name) {
		statement.Comment = strings.TrimPrefix(statement.Comment+"\nOpen connections keep the old value: have the applications connect anew.", "\n")
	}
	return []Statement{statement}
}

// perSession reports whether connections have a value of their own, taken when they were opened.
func perSession(name string) bool {
	switch name {
	case "binlog_format", "binlog_row_image", "binlog_row_value_options":
		return true
	default:
		return false
	}
}

// gtidMode goes to ON the only way that a running server takes, a step at a time (MySQL manual, "Changing
// GTID Mode on Online Servers"). A step that is behind already is refused: leave it out.
func gtidMode(value string) []Statement {
	if value != "ON" {
		return []Statement{{SQL: "SET PERSIST gtid_mode = " + mysqlValue(value)}}
	}
	statements := []Statement{{
		Comment: "One step at a time; leave out the steps that are behind already (SELECT @@global.gtid_mode).\n" +
			"On a server with replicas each step must be taken on all of them before the next.",
		SQL: "SET PERSIST enforce_gtid_consistency = ON",
	}}
	for _, step := range []string{"OFF_PERMISSIVE", "ON_PERMISSIVE"} {
		statements = append(statements, Statement{SQL: "SET PERSIST gtid_mode = " + step})
	}
	return append(statements, Statement{
		Comment: "Once SHOW STATUS LIKE 'ONGOING_ANONYMOUS_TRANSACTION_COUNT' says 0.",
		SQL:     "SET PERSIST gtid_mode = ON",
	})
}

// mysqlValue leaves words and numbers as they are.
func mysqlValue(s string) string {
	if s == "" || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") != "" {
		return mysqlLiteral(s)
	}
	return s
}

// MySQLTeardown returns what takes tables away with all their events. There is nothing else of the relay's
// in the server: where it reads stands in its checkpoint. It is safe to run again.
func MySQLTeardown(drop []Name) Steps {
	if len(drop) == 0 {
		return nil
	}
	owner := Step{Runner: RunnerMySQLOwner}
	for _, t := range drop {
		owner.Statements = append(owner.Statements, Statement{SQL: "DROP TABLE IF EXISTS " + t.MySQL()})
	}
	return Steps{owner}
}

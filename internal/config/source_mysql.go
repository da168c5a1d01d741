package config

import (
	"context"
	"fmt"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// MySQL is a source of MySQL or MariaDB.
type MySQL struct {
	// Connection string of Go's MySQL driver, or a URL (mysql://relay@db.example.com:3306/orders, mariadb:// too). It must name the database and lead directly to the server, because the relay reads the binlog as a replica does. Read again at every connect.
	DSN Secret `yaml:"dsn" jsonschema:"required,minLength=1,example=relay@tcp(db.example.com:3306)/orders"`
	// Password of the connection; it replaces the one in dsn and needs no escaping. Read again at every connect.
	Password Secret `yaml:"password,omitempty" jsonschema:"example=${file:/run/secrets/mysql}"`
	// A program and its arguments that print the password; see source.postgres.password_command. IAM tokens need allowCleartextPasswords=true in dsn, and tls.
	PasswordCommand Command `yaml:"password_command,omitempty" jsonschema:"minItems=1"`
	// The expected server. auto: detect it.
	Flavor cdc.Flavor `yaml:"flavor" jsonschema:"enum=auto,enum=mysql,enum=mariadb,default=auto"`
	// The server ID that the relay uses as a replica. No other server or relay of the replication topology may have it. 0: choose a free one.
	ServerID uint32 `yaml:"server_id" jsonschema:"minimum=0,maximum=4294967295,default=0"`
	// Identifies this binlog in checkpoints, in the leader's lock and in Kafka's fence, so that no other relay that publishes to the same Kafka may have the same id and database; a checkpoint with another id is refused, and one without an id is adopted if this server has executed its position. All servers of a replication topology share it, and a failover does not change it.
	ID string `yaml:"id,omitempty" jsonschema_extras:"x-default=the flavor"`
	// TLS to the server. Absent: what tls= in dsn says. `tls: {}` verifies the server with the system's CAs.
	TLS *TLS `yaml:"tls,omitempty" jsonschema_extras:"x-optional=true"`
	// Accept a server with sync_binlog or innodb_flush_log_at_trx_commit other than 1: after a crash it can assign a GTID twice, and the second transaction is never published. The relay warns at every start.
	UnsafeSyncBinlog bool `yaml:"unsafe_sync_binlog,omitempty" jsonschema:"default=false"`

	// Tables with their database, spelled exactly, that a statement in the binlog may change although it stands there in place of rows, as those of pt-table-checksum do. With a table in this list you vouch that no trigger on it writes to an outbox, nor a function in a view that is read into it. Tables of hosted MySQL (mysql.rds_...) need no entry.
	HarmlessTables []string `yaml:"harmless_tables" jsonschema:"example=percona.checksums" jsonschema_extras:"x-default=[percona.checksums]"`
	// Publish an event only once a new statement on the server sees its row: the binlog has a transaction before that, and with semi-synchronous replication long before. It takes one connection more, and about a question for each read of the binlog.
	WaitUntilVisible bool `yaml:"wait_until_visible" jsonschema:"default=true"`

	names   names
	command Secret
}

// FlavorAuto asks the server.
const FlavorAuto cdc.Flavor = "auto"

func (d *document) mysql(m *MySQL) {
	d.tls(m.TLS, "source.mysql.tls")
	m.command = d.command(m.PasswordCommand, m.Password, "source.mysql.password")
	if m.HarmlessTables == nil {
		m.HarmlessTables = []string{"percona.checksums"}
	}
	for i, name := range m.HarmlessTables {
		if database, table, _ := strings.Cut(name, "."); database == "" || table == "" {
			d.wrong(fmt.Sprintf("source.mysql.harmless_tables[%d]", i), "database.table", fmt.Sprintf("%q", name))
		}
	}
	d.mysqlDSN(m)
}

func (d *document) mysqlDSN(m *MySQL) {
	const path = "source.mysql.dsn"
	if m.DSN.IsZero() || d.bad(path) || d.bad("source.mysql.password") {
		return
	}
	dsn, password, err := credentials(context.Background(), "source.mysql", m.DSN, m.Password) // not the command's, which is run when the relay connects
	if err != nil {
		d.report(path, cdc.Fix(err), "cannot be read: %v", err)
		return
	}
	parsed, err := parseMySQL(dsn, password)
	if err != nil {
		d.fault(path, err)
		return
	}
	if parsed.TLSConfig != "" && m.TLS != nil {
		d.report(path, "keep one of them", "has tls= in it beside source.mysql.tls")
	}
	if parsed.AllowCleartextPasswords && parsed.Net == "tcp" && m.TLS == nil && (parsed.TLSConfig == "" || parsed.TLSConfig == "false" || parsed.TLSConfig == "preferred") {
		d.report(path, "set source.mysql.tls", "has allowCleartextPasswords, which sends the password to anybody on the way unless TLS is required")
	}
	m.DSN.shown = shownMySQL(parsed)
	m.names = names{database: parsed.DBName, role: parsed.User, plain: plainMySQL(parsed)}
}

package config

import (
	"context"
	"fmt"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// MySQL is a source of MySQL or MariaDB.
type MySQL struct {
	// Connection string of Go's MySQL driver, or a URL (mysql://relay@db.example.com:3306/orders). It names the database. Connect directly to the server.
	DSN Secret `yaml:"dsn" jsonschema:"required,minLength=1,example=relay@tcp(db.example.com:3306)/orders"`
	// In place of the password in dsn; it needs no escaping.
	Password Secret `yaml:"password,omitempty" jsonschema:"example=${file:/run/secrets/mysql}"`
	// IAM tokens need allowCleartextPasswords=true in dsn, and tls.
	PasswordCommand Command `yaml:"password_command,omitempty" jsonschema:"minItems=1"`
	// A name for this database, unique among the relays of one Kafka cluster: part of the checkpoint, the leader lock and the transactional ID. The first `setup` needs it. Do not change it, even after a failover.
	ID string `yaml:"id,omitempty" jsonschema:"example=orders-1"`
	// Absent: tls= in dsn applies.
	TLS *TLS `yaml:"tls,omitempty" jsonschema_extras:"x-optional=true"`
	// Accept a server with sync_binlog or innodb_flush_log_at_trx_commit other than 1, which can lose an event in a crash.
	UnsafeSyncBinlog bool `yaml:"unsafe_sync_binlog,omitempty" jsonschema:"default=false"`

	// Tables, with their database, that statements in the binlog may change in place of row events. No trigger on them may write to an outbox.
	HarmlessTables []string `yaml:"harmless_tables" jsonschema:"example=percona.checksums" jsonschema_extras:"x-default=[percona.checksums]"`
	// Publish an event only once a new statement sees its row. false: as soon as the binlog has it.
	WaitUntilVisible bool `yaml:"wait_until_visible" jsonschema:"default=true"`

	names names
}

func (d *document) mysql(m *MySQL) {
	d.tls(m.TLS, "source.mysql.tls")
	if m.HarmlessTables == nil {
		m.HarmlessTables = []string{"percona.checksums"}
	}
	for i, name := range m.HarmlessTables {
		if database, table, _ := strings.Cut(name, "."); database == "" || table == "" {
			d.wrong(fmt.Sprintf("source.mysql.harmless_tables[%d]", i), "database.table", fmt.Sprintf("%q", name))
		}
	}
	d.mysqlDSN(m)
	d.command(m.PasswordCommand, &m.Password, "source.mysql.password") // after the dsn, whose check would run it
}

func (d *document) mysqlDSN(m *MySQL) {
	const path = "source.mysql.dsn"
	if m.DSN.IsZero() || d.bad(path) || d.bad("source.mysql.password") {
		return
	}
	dsn, password, err := credentials(context.Background(), "source.mysql", m.DSN, m.Password)
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
	if parsed.AllowCleartextPasswords && parsed.Net == "tcp" && (m.TLS == nil && unverified(parsed) || m.TLS != nil && m.TLS.InsecureSkipVerify) {
		d.report(path, "set source.mysql.tls, without insecure_skip_verify", "has allowCleartextPasswords, which sends the password to anybody on the way unless TLS verifies the server")
	}
	m.DSN.shown = shownMySQL(parsed)
	m.names = names{server: parsed.Addr, database: parsed.DBName, role: parsed.User, plain: plainMySQL(parsed)}
}

package config

import (
	"context"
	"net"
	"regexp"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Postgres is a PostgreSQL source.
type Postgres struct {
	// Connection string, a URL or key=value pairs. Connect directly to the server: most poolers refuse replication.
	DSN Secret `yaml:"dsn" jsonschema:"required,minLength=1,example=postgres://relay@db.example.com:5432/orders"`
	// In place of the password in dsn; it needs no escaping.
	Password Secret `yaml:"password,omitempty" jsonschema:"example=${file:/run/secrets/postgres}"`
	// For passwords that expire, such as IAM tokens.
	PasswordCommand Command `yaml:"password_command,omitempty" jsonschema:"minItems=1"`
	// Absent: sslmode in dsn applies, whose default prefer falls back to plain text.
	TLS *TLS `yaml:"tls,omitempty" jsonschema_extras:"x-optional=true"`
	// Replication slot, unique per server.
	Slot string `yaml:"slot" jsonschema_extras:"x-default=cdc_relay_<database>"`
	// Publication that holds the tables.
	Publication string `yaml:"publication" jsonschema_extras:"x-default=cdc_relay_<database>"`
	// Publish an event only once a new statement sees its row. false: as soon as its commit is in the WAL.
	WaitUntilVisible bool `yaml:"wait_until_visible" jsonschema:"default=true"`

	names names
}

func (d *document) postgres(p *Postgres) {
	d.tls(p.TLS, "source.postgres.tls")
	d.postgresDSN(p)
	d.command(p.PasswordCommand, &p.Password, "source.postgres.password") // after the dsn, whose check would run it
	name := p.names.database
	if name != "" && p.Slot == "" {
		p.Slot = slotName(name)
	}
	if name != "" && p.Publication == "" {
		p.Publication = slotName(name)
	}
	if p.Slot != "" && !regexp.MustCompile(`^[a-z0-9_]{1,63}$`).MatchString(p.Slot) {
		d.wrong("source.postgres.slot", "1 to 63 of a-z, 0-9 and _", d.text("source.postgres.slot"))
	}
	if len(p.Publication) > maxName {
		d.report("source.postgres.publication", "shorten it", "is longer than 63 bytes, which PostgreSQL cuts off")
	}
}

func (d *document) postgresDSN(p *Postgres) {
	const path = "source.postgres.dsn"
	if p.DSN.IsZero() || d.bad(path) || d.bad("source.postgres.password") {
		return
	}
	dsn, err := p.ConnString(context.Background())
	if err != nil {
		d.report(path, cdc.Fix(err), "cannot be read: %v", err)
		return
	}
	parsed, err := parseDSN(dsn)
	if err != nil {
		d.fault(path, err)
		return
	}
	if p.TLS != nil {
		d.postgresTLS(parsed, dsn)
	}
	p.DSN.shown = shownDSN(parsed, dsn)
	p.names = names{server: net.JoinHostPort(parsed.Host, strconv.Itoa(int(parsed.Port))), database: database(parsed), role: parsed.User, plain: plainPostgres(parsed)}
}

// postgresTLS refuses what contradicts a section for TLS.
func (d *document) postgresTLS(parsed *pgconn.Config, dsn string) {
	if isSocket(parsed.Host) {
		d.report("source.postgres.tls", "remove it", "is set, but dsn leads to a socket, which takes no TLS")
		return
	}
	given := dsnOptions(dsn)
	for _, name := range tlsOptions() {
		if _, ok := given[name]; ok {
			d.report("source.postgres.dsn", "keep one of them", "has %s in it beside source.postgres.tls", name)
			return
		}
	}
}

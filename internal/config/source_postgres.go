package config

import (
	"regexp"
	"time"
)

// Postgres is a PostgreSQL source.
type Postgres struct {
	// Connection string, as a URL or as key=value pairs, straight to the server: poolers refuse replication. Read again at every connect.
	DSN Secret `yaml:"dsn" jsonschema:"required,minLength=1,example=postgres://relay@db.example.com:5432/orders"`
	// Password of the connection; it replaces one in dsn. Unlike there, no character of it needs escaping. Read again at every connect.
	Password Secret `yaml:"password,omitempty" jsonschema:"example=${file:/run/secrets/postgres}"`
	// Replication slot. Slots are per server, so the default carries the database's name.
	Slot string `yaml:"slot" jsonschema_extras:"x-default=cdc_relay_<database>"`
	// Publication that holds the tables.
	Publication string `yaml:"publication" jsonschema_extras:"x-default=cdc_relay_<database>"`
	// Whether `setup` makes the slot a failover slot (PostgreSQL 17 and newer), which survives the promotion of a standby. auto: where the server can.
	Failover Failover `yaml:"failover" jsonschema:"enum=auto,enum=on,enum=off,default=auto"`
	// How often the position is reported to the server unasked. Below 10s, because the relay sets wal_sender_timeout to that on its connection.
	StatusInterval time.Duration `yaml:"status_interval" jsonschema:"default=3s"`

	names names
}

// Failover says whether the slot is made as a failover slot.
type Failover string

// The settings of failover.
const (
	FailoverAuto Failover = "auto"
	FailoverOn   Failover = "on"
	FailoverOff  Failover = "off"
)

// walSenderTimeout is what the relay sets on its connection, so that the walsender of a dead relay
// lets the slot go soon.
const walSenderTimeout = 10 * time.Second

func (d *document) postgres(p *Postgres) {
	if p.StatusInterval >= walSenderTimeout {
		d.report("source.postgres.status_interval", "must be less than 10s: the server ends a connection that is silent "+
			"for longer; it is %s", d.text("source.postgres.status_interval"))
	}
	d.postgresDSN(p)
	name := p.names.database
	if name != "" && p.Slot == "" {
		p.Slot = slotName(name)
	}
	if name != "" && p.Publication == "" {
		p.Publication = slotName(name)
	}
	if p.Slot != "" && !regexp.MustCompile(`^[a-z0-9_]{1,63}$`).MatchString(p.Slot) {
		d.report("source.postgres.slot", "must be 1 to 63 of a-z, 0-9 and _; it is %s", d.text("source.postgres.slot"))
	}
	if len(p.Publication) > maxName {
		d.report("source.postgres.publication", "is longer than 63 bytes, which PostgreSQL cuts off; shorten it")
	}
}

func (d *document) postgresDSN(p *Postgres) {
	const path = "source.postgres.dsn"
	if p.DSN.IsZero() || d.bad(path) || d.bad("source.postgres.password") {
		return
	}
	dsn, err := p.ConnString()
	if err != nil {
		d.report(path, "cannot be read: %v", err)
		return
	}
	parsed, err := parseDSN(dsn)
	if err != nil {
		d.report(path, "%v", err)
		return
	}
	p.DSN.shown = shownDSN(parsed)
	p.names = names{database: database(parsed), role: parsed.User}
}

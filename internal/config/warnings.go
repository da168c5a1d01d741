package config

import (
	"net"
	"net/netip"
	"slices"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
)

// Warning is a setting that is valid but dangerous, or has another name now.
type Warning struct {
	// Text says what is wrong, without a full stop; Fix starts with a verb.
	Text, Fix string
}

// Warnings returns what to log at every start.
func (c *Config) Warnings() []Warning {
	return slices.Concat(c.moved, c.insecure(), c.plaintext())
}

func (c *Config) insecure() []Warning {
	var all []Warning
	skips := func(t *TLS, path, server string) {
		if t != nil && t.InsecureSkipVerify {
			all = append(all, Warning{path + ".insecure_skip_verify is on: anybody between the relay and " + server +
				" can read and change everything", "set " + path + ".ca instead"})
		}
	}
	if p := c.Source.Postgres; p != nil {
		skips(p.TLS, "source.postgres.tls", "the database")
	}
	if m := c.Source.MySQL; m != nil {
		skips(m.TLS, "source.mysql.tls", "the database")
		if m.UnsafeSyncBinlog {
			all = append(all, Warning{
				"source.mysql.unsafe_sync_binlog is on: a server that crashes without sync_binlog = 1 and " +
					"innodb_flush_log_at_trx_commit = 1 can use a GTID twice, and the second transaction is never published",
				"set both to 1 on the server",
			})
		}
	}
	skips(c.Kafka.TLS, "kafka.tls", "Kafka")
	if s := c.Kafka.SASL; s != nil && s.OAuth != nil {
		skips(s.OAuth.TLS, "kafka.sasl.oauth.tls", "the token endpoint")
	}
	if r := c.Checkpoint.Redis; r != nil {
		skips(r.TLS, "checkpoint.redis.tls", "Redis")
	}
	return all
}

// plaintext warns of connections to other machines that are not, or not always, encrypted.
func (c *Config) plaintext() []Warning {
	var all []Warning
	warn := func(host, server, danger, fix string) {
		if host != "" {
			all = append(all, Warning{"the connection to " + server + " at " + host + " does not require TLS that verifies the server: anybody on the way can " + danger, fix})
		}
	}
	if p := c.Source.Postgres; p != nil && p.TLS == nil {
		warn(p.names.plain, "PostgreSQL", "read the events and pose as the server", "set source.postgres.tls, or sslmode=verify-full in source.postgres.dsn")
	}
	if m := c.Source.MySQL; m != nil && m.TLS == nil {
		warn(m.names.plain, "the database", "read the events and pose as the server", "set source.mysql.tls, or tls=true in source.mysql.dsn")
	}
	if s := c.Kafka.SASL; s != nil && c.Kafka.TLS == nil {
		danger, fix := "read the events", "set kafka.tls"
		switch s.Mechanism {
		case MechanismPlain:
			danger, fix = "read the password of kafka.sasl and the events", "set kafka.tls, or at least use SCRAM-SHA-512"
		case MechanismOAuth, MechanismMSK:
			danger = "read the token of kafka.sasl and the events"
		case MechanismScramSHA256, MechanismScramSHA512:
		}
		warn(elsewhere(c.Kafka.Brokers), "Kafka", danger, fix)
	}
	if s := c.Kafka.SASL; s != nil && s.OAuth != nil {
		warn(s.OAuth.plain(), "the token endpoint", "read the secret of kafka.sasl.oauth and the tokens", "set kafka.sasl.oauth.token_url to an https:// address")
	}
	if r := c.Checkpoint.Redis; r != nil && r.TLS == nil {
		warn(elsewhere(r.Addrs), "Redis", "read its password and change the position", "set checkpoint.redis.tls")
	}
	return all
}

// elsewhere returns the first address that is not on this machine, or "".
func elsewhere(addresses []string) string {
	for _, a := range addresses {
		host, _, err := net.SplitHostPort(a)
		if err != nil || host == "localhost" {
			continue // the directory of a socket
		}
		if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
			return a
		}
	}
	return ""
}

// plainPostgres returns the other machine that sslmode allows to be reached without TLS that verifies it.
func plainPostgres(c *pgconn.Config) string {
	var plain []string
	for _, way := range ways(c) {
		if t := way.TLSConfig; t == nil || t.InsecureSkipVerify && t.VerifyPeerCertificate == nil {
			plain = append(plain, address(way.Host, way.Port))
		}
	}
	return elsewhere(plain)
}

// plainMySQL returns the other machine that tls= allows to be reached without TLS that verifies it.
func plainMySQL(c *mysql.Config) string {
	if c.Net != "tcp" || !unverified(c) {
		return ""
	}
	return elsewhere([]string{c.Addr})
}

// unverified reports whether tls= allows a server that is not verified.
func unverified(c *mysql.Config) bool {
	return slices.Contains([]string{"", "false", "preferred", "skip-verify"}, c.TLSConfig)
}

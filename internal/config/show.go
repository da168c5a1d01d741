package config

import (
	"fmt"
	"io"

	"go.yaml.in/yaml/v4"
)

// Show writes the effective configuration as YAML: defaults filled in, references expanded, secrets
// as "***" and the connection string without its password.
func (c *Config) Show(w io.Writer) error {
	out, err := yaml.Dump(c)
	if err != nil {
		return fmt.Errorf("show configuration: %w", err)
	}
	if _, err := w.Write(out); err != nil {
		return fmt.Errorf("show configuration: %w", err)
	}
	return nil
}

// Warnings returns a sentence for each setting that is valid but dangerous; log them at every start.
func (c *Config) Warnings() []string {
	var warnings []string
	insecure := func(t *TLS, path, server string) {
		if t != nil && t.InsecureSkipVerify {
			warnings = append(warnings, path+".insecure_skip_verify is on: anybody between the relay and "+server+
				" can read and change everything; set "+path+".ca instead")
		}
	}
	if m := c.Source.MySQL; m != nil {
		insecure(m.TLS, "source.mysql.tls", "the database")
		if m.UnsafeSyncBinlog {
			warnings = append(warnings, "source.mysql.unsafe_sync_binlog is on: a server that crashes without sync_binlog = 1 and "+
				"innodb_flush_log_at_trx_commit = 1 can use a GTID twice, and the second transaction is never published; "+
				"set both to 1 on the server")
		}
	}
	insecure(c.Kafka.TLS, "kafka.tls", "Kafka")
	if c.Checkpoint.Redis != nil {
		insecure(c.Checkpoint.Redis.TLS, "checkpoint.redis.tls", "Redis")
	}
	if sasl := c.Kafka.SASL; sasl != nil && sasl.Mechanism == MechanismPlain && c.Kafka.TLS == nil {
		warnings = append(warnings, "kafka.sasl.mechanism PLAIN without kafka.tls sends the password readably; "+
			"set kafka.tls, or use SCRAM-SHA-512")
	}
	return warnings
}

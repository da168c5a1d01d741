package wal

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// walSenderTimeout is set on our own replication connection: after this machine dies, its walsender
// holds the slot that long, and a standby waits. statusInterval must stay well below it.
const walSenderTimeout = "10s"

// connectTimeout bounds the connecting to each host, unless the connection string has a connect_timeout: a host that is
// silent must not use up the time of the next one.
const connectTimeout = 10 * time.Second

// SQLSTATEs; source: PostgreSQL documentation, Appendix A.
const (
	stateInvalidPassword                   = "28P01"
	stateInvalidAuthorizationSpecification = "28000"
	stateInvalidCatalogName                = "3D000"
	stateInsufficientPrivilege             = "42501"
	stateTooManyConnections                = "53300"
	stateCannotConnectNow                  = "57P03"
	stateAdminShutdown                     = "57P01"
	stateProtocolViolation                 = "08P01"
	stateObjectInUse                       = "55006"
	stateConfigurationLimitExceeded        = "53400"
	stateObjectNotInPrerequisiteState      = "55000"
	stateUndefinedObject                   = "42704"
	stateSyntaxError                       = "42601"
	stateQueryCanceled                     = "57014"
	stateReadOnly                          = "25006"
)

// ConnectSQL opens an ordinary connection. The caller closes it.
func ConnectSQL(ctx context.Context, o Options) (*pgx.Conn, error) {
	text, err := o.DSN()
	if err != nil {
		return nil, fmt.Errorf("source.postgres.dsn: %w", err)
	}
	cfg, err := pgx.ParseConfig(text)
	if err != nil {
		return nil, errDSN()
	}
	if err := secure(&cfg.Config, o.TLS); err != nil {
		return nil, err
	}
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, connectTimeout)
	maps.Copy(cfg.RuntimeParams, map[string]string{"application_name": "cdc-relay", "statement_timeout": "10s"})
	// No prepared statements: this connection asks the same few questions, and a pooler in between
	// must be told apart by its own words, not by a lost statement.
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, connectError(err, &cfg.Config, false)
	}
	return conn, nil
}

// ConnectReplication opens a logical replication connection whose reads are paced. The caller closes it.
func ConnectReplication(ctx context.Context, o Options) (*pgconn.PgConn, error) {
	text, err := o.DSN()
	if err != nil {
		return nil, fmt.Errorf("source.postgres.dsn: %w", err)
	}
	cfg, err := pgconn.ParseConfig(text)
	if err != nil {
		return nil, errDSN()
	}
	if err := secure(cfg, o.TLS); err != nil {
		return nil, err
	}
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, connectTimeout)
	maps.Copy(cfg.RuntimeParams, map[string]string{
		"replication": "database", "application_name": "cdc-relay", "wal_sender_timeout": walSenderTimeout,
		"TimeZone": "UTC", "DateStyle": "ISO", "bytea_output": "hex", "client_encoding": "UTF8",
	})
	cfg.DialFunc = dialPaced(cfg.DialFunc)
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, connectError(err, cfg, true)
	}
	return conn, nil
}

func errDSN() error {
	return cdc.Stop(cdc.ClassConfig, "dsn", errors.New("source.postgres.dsn is not a PostgreSQL connection string or URL"))
}

// secure has every host reached with TLS as the configuration says, and none without.
func secure(cfg *pgconn.Config, section func() (*tls.Config, error)) error {
	if section == nil {
		return nil
	}
	base, err := section()
	if err != nil {
		return cdc.Stop(cdc.ClassConfig, "tls", fmt.Errorf("source.postgres.tls: %w", err))
	}
	all := append([]*pgconn.FallbackConfig{{Host: cfg.Host, Port: cfg.Port}}, cfg.Fallbacks...)
	// sslmode=prefer, the default, lists each host twice: with TLS, and without.
	all = slices.CompactFunc(all, func(a, b *pgconn.FallbackConfig) bool { return a.Host == b.Host && a.Port == b.Port })
	for _, host := range all {
		if strings.HasPrefix(host.Host, "/") {
			continue // a socket takes no TLS
		}
		host.TLSConfig = base.Clone()
		if base.ServerName == "" {
			host.TLSConfig.ServerName = host.Host
		}
	}
	cfg.TLSConfig, cfg.Fallbacks = all[0].TLSConfig, all[1:]
	return nil
}

// connectError turns what a driver says into what a person must do. Everything is retryable except
// what only a person can mend.
func connectError(err error, cfg *pgconn.Config, replication bool) error {
	var dns *net.DNSError
	var pg *pgconn.PgError
	at := address(cfg)
	switch {
	case errors.As(err, &pg) && pg.Code == stateInsufficientPrivilege && replication:
		return mayNotReplicate(cfg.User, pg.Message)
	case errors.As(err, &pg):
		return serverError(pg, replication)
	case errors.As(err, &dns):
		return &cdc.FixableError{Cause: fmt.Errorf("host %q of source.postgres.dsn does not resolve", cfg.Host), Fix: "correct its name or the DNS"}
	case strings.Contains(err.Error(), "server refused TLS connection"):
		return config("tls_refused", "PostgreSQL at %s does not offer TLS but sslmode asks for it: switch TLS on at the server (ssl = on), or set sslmode=disable in source.postgres.dsn", at)
	case strings.Contains(err.Error(), "x509:") || strings.Contains(err.Error(), "tls:"):
		return config("tls_certificate", "TLS to PostgreSQL at %s failed (%s): give its CA with source.postgres.tls.ca, or with sslrootcert in source.postgres.dsn", at, lastCause(err))
	case errors.Is(err, context.Canceled):
		return err
	}
	return fmt.Errorf("PostgreSQL at %s cannot be reached (%s): start it, or correct host and port in source.postgres.dsn", at, lastCause(err))
}

// address is host:port, or the directory of a socket.
func address(cfg *pgconn.Config) string {
	if strings.HasPrefix(cfg.Host, "/") {
		return cfg.Host
	}
	return net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
}

func mayNotReplicate(role, said string) error {
	quoted := pgx.Identifier{role}.Sanitize()
	return config("no_replication", "role %q may not replicate (%s): ALTER ROLE %s REPLICATION, or on a managed service grant its replication role (GRANT rds_replication TO %s)", role, said, quoted, quoted)
}

// serverError maps what the server says at a connect or in answer to a query.
func serverError(pg *pgconn.PgError, replication bool) error {
	switch pg.Code {
	case stateInvalidPassword:
		return config("password", "PostgreSQL refuses the password (%s): correct user and password in source.postgres.dsn", pg.Message)
	case stateInvalidAuthorizationSpecification:
		return authorizationError(pg, replication)
	case stateInvalidCatalogName:
		return config("database_missing", "%s: correct the database in source.postgres.dsn", pg.Message)
	case stateInsufficientPrivilege:
		return config(noPrivilege, "the role of source.postgres.dsn lacks a right: %s", pg.Message)
	case stateTooManyConnections:
		if strings.Contains(pg.Message, "max_wal_senders") {
			return config("no_walsender", "no walsender is free (%s): raise max_wal_senders and restart PostgreSQL, or stop a replica or relay that is not needed", pg.Message)
		}
		return fmt.Errorf("PostgreSQL has no connection free (%s): raise max_connections", pg.Message)
	case stateCannotConnectNow, stateAdminShutdown:
		return fmt.Errorf("%w: %s", errServerStopping, pg.Message)
	}
	if isPoolerRefusal(pg) {
		return config("pooler", "a pooler stands between relay and PostgreSQL and does not pass replication on (%s): point source.postgres.dsn at the database's direct endpoint", pg.Message)
	}
	return fmt.Errorf("PostgreSQL: %w", pg)
}

func authorizationError(pg *pgconn.PgError, replication bool) error {
	switch {
	case replication && strings.Contains(pg.Message, "pg_hba.conf"):
		return config("pg_hba", "PostgreSQL does not admit this relay (%s): add a line for its database (and TLS or not) to pg_hba.conf; logical replication matches the database's name, not the word replication", pg.Message)
	case strings.Contains(pg.Message, "pg_hba.conf"):
		return config("pg_hba", "PostgreSQL does not admit this relay (%s): add a line for it to pg_hba.conf, with sslmode=require in source.postgres.dsn where the line says hostssl", pg.Message)
	}
	return config("role", "PostgreSQL refuses the role (%s): correct the user in source.postgres.dsn", pg.Message)
}

// isPoolerRefusal knows how PgBouncer (before 1.23) and the pools made like it answer the replication
// parameter.
func isPoolerRefusal(pg *pgconn.PgError) bool {
	return strings.Contains(pg.Message, "unsupported startup parameter") ||
		pg.Code == stateProtocolViolation && strings.Contains(pg.Message, "replication")
}

// identifyError maps what IDENTIFY_SYSTEM answers: a pooler that swallowed the replication parameter hands
// the command to an ordinary session, which does not know it.
func identifyError(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == stateSyntaxError {
		return config("pooler", "a pooler stands between relay and PostgreSQL and does not pass replication on (%s): point source.postgres.dsn at the database's direct endpoint", pg.Message)
	}
	return fmt.Errorf("identify system: %w", err)
}

// replicationError maps what START_REPLICATION and slot commands answer.
func replicationError(err error, slot string) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Errorf("start replication from slot %s: %w", slot, err)
	}
	switch pg.Code {
	case stateObjectInUse:
		return fmt.Errorf("%w: %s", cdc.ErrStandby, pg.Message)
	case stateConfigurationLimitExceeded:
		return config("no_slot_free", "no replication slot is free (%s): raise max_replication_slots and restart PostgreSQL, or drop a slot nobody reads (SELECT * FROM pg_replication_slots)", pg.Message)
	case stateObjectNotInPrerequisiteState:
		if strings.Contains(pg.Message, "wal_level") {
			return config("wal_level", "wal_level is not logical: ALTER SYSTEM SET wal_level = logical, then restart PostgreSQL (managed services have a parameter for it)")
		}
		return positionError("slot_lost", "replication slot %q cannot be read any more (%s): publish what consumers miss from the outbox table, then drop the slot and create it again with `cdc-relay teardown` and `cdc-relay setup`", slot, pg.Message)
	case stateUndefinedObject:
		if strings.Contains(pg.Message, "publication") {
			return positionError("slot_too_old", "slot %q cannot be read with its publication (%s in its view), which was dropped or made after it: publish what consumers miss from the outbox table, then make both again with `cdc-relay teardown` and `cdc-relay setup`", slot, pg.Message)
		}
		return positionError("slot_missing", "%s: create it with `cdc-relay setup`", pg.Message)
	}
	return serverError(pg, true)
}

func config(reason, format string, args ...any) error {
	return cdc.Stop(cdc.ClassConfig, reason, fmt.Errorf(format, args...))
}

// lastCause returns the innermost message: drivers wrap it in the whole connection string.
func lastCause(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			if many, ok := err.(interface{ Unwrap() []error }); ok && len(many.Unwrap()) > 0 {
				err = many.Unwrap()[0]
				continue
			}
			return err.Error()
		}
		err = next
	}
}

package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// SQLSTATEs; source: PostgreSQL documentation, Appendix A.
const (
	stateInvalidPassword                   = "28P01"
	stateInvalidAuthorizationSpecification = "28000"
	stateInvalidCatalogName                = "3D000"
	stateInsufficientPrivilege             = "42501"
	stateInvalidSchemaName                 = "3F000"
	stateTooManyConnections                = "53300"
	stateCannotConnectNow                  = "57P03"
	stateAdminShutdown                     = "57P01"
	stateProtocolViolation                 = "08P01"
	stateObjectInUse                       = "55006"
	stateConfigurationLimitExceeded        = "53400"
	stateObjectNotInPrerequisiteState      = "55000"
	StateUndefinedObject                   = "42704"
	stateSyntaxError                       = "42601"
	stateQueryCanceled                     = "57014"
	stateReadOnly                          = "25006"
	stateLockNotAvailable                  = "55P03"
	stateDeadlockDetected                  = "40P01"
	stateCheckViolation                    = "23514"
	stateForeignKeyViolation               = "23503"
	stateRestrictViolation                 = "23001"
	stateRaised                            = "P0001"
	stateUndefinedFunction                 = "42883"
	stateDuplicateTable                    = "42P07"
	stateWrongObjectType                   = "42809"
	stateDependentObjects                  = "2BP01"
	stateCantChangeRuntimeParam            = "55P02"
)

// lockHeld is the cause, and endLockers the fix, of a statement on a table that waited for a lock for too long.
const (
	lockHeld   = "a transaction held a lock on it, or on a table that a foreign key connects with it"
	endLockers = "end long transactions on these tables, which pg_locks and pg_stat_activity show, if this is said again and again"
)

// ErrStopping says that PostgreSQL shuts down, starts up, or ended our session. Retryable.
var ErrStopping = errors.New("PostgreSQL ended the session, or is shutting down or starting up")

// connectError turns what a driver says into what a person must do. Everything is retryable except
// what only a person can fix.
func connectError(err error, cfg *pgconn.Config, replication bool) error {
	answers := answersOf(err)
	if len(answers) < 2 {
		return hostError(err, address(cfg), cfg, replication)
	}
	said, waits := make([]string, 0, len(answers)), false
	for _, a := range answers {
		said = append(said, a.host+": "+cdc.LastCause(a.err))
		var stop *cdc.StopError
		waits = waits || !errors.As(hostError(a.err, a.host, cfg, replication), &stop)
	}
	const fix = "start one of them, or correct the hosts and sslmode in source.postgres.dsn"
	cause := fmt.Errorf("no host of source.postgres.dsn can be used (%s)", strings.Join(said, "; "))
	if waits {
		return &cdc.FixableError{Cause: cause, Fix: fix}
	}
	return cdc.Stop(cdc.ClassConfig, "hosts", cause, fix)
}

// answer is what came of the last attempt at a host.
type answer struct {
	host string
	err  error
}

// answersOf takes apart what the driver says of several hosts, each of which it may have tried with TLS and without.
func answersOf(err error) []answer {
	var failed *pgconn.ConnectError
	if !errors.As(err, &failed) {
		return nil
	}
	many, ok := failed.Unwrap().(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var answers []answer
	for _, one := range many.Unwrap() {
		host, _, _ := strings.Cut(one.Error(), " (") // "127.0.0.1:5432 (localhost): ..."
		answers = slices.DeleteFunc(answers, func(a answer) bool { return a.host == host })
		answers = append(answers, answer{host, one})
	}
	return answers
}

func hostError(err error, at string, cfg *pgconn.Config, replication bool) error {
	var dns *net.DNSError
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == stateInsufficientPrivilege && replication:
		return mayNotReplicate(cfg.User, pg.Message)
	case errors.As(err, &pg) && (pg.Code == StateUndefinedObject || pg.Code == stateCantChangeRuntimeParam):
		return parameterError(pg, cfg)
	case errors.As(err, &pg) && pg.Code == stateObjectNotInPrerequisiteState:
		return cdc.Fixable(fmt.Sprintf("run `ALTER DATABASE %s ALLOW_CONNECTIONS true`", pgx.Identifier{cfg.Database}.Sanitize()), "PostgreSQL refuses connections (%s)", pg.Message)
	case errors.As(err, &pg) && pg.Code == stateTooManyConnections && strings.Contains(pg.Message, "for role"):
		return cdc.Fixable(fmt.Sprintf("raise its limit, or remove it with `ALTER ROLE %s CONNECTION LIMIT -1`", pgx.Identifier{cfg.User}.Sanitize()), "the role has no connection free (%s)", pg.Message)
	case errors.As(err, &pg) && pg.Code == stateTooManyConnections && strings.Contains(pg.Message, "for database"):
		return cdc.Fixable(fmt.Sprintf("raise its limit, or remove it with `ALTER DATABASE %s CONNECTION LIMIT -1`", pgx.Identifier{cfg.Database}.Sanitize()), "the database has no connection free (%s)", pg.Message)
	case errors.As(err, &pg):
		return serverError(pg, replication)
	case errors.As(err, &dns):
		return cdc.Fixable("correct its name or the DNS", "host %q of source.postgres.dsn does not resolve", dns.Name)
	case strings.Contains(err.Error(), "server refused TLS connection"):
		return cdc.ConfigError("tls_refused", "switch TLS on at the server (ssl = on), or remove source.postgres.tls and set sslmode=disable in source.postgres.dsn", "PostgreSQL at %s does not offer TLS but the configuration asks for it", at)
	case strings.Contains(err.Error(), "channel binding required"):
		return cdc.ConfigError("channel_binding", "use TLS and a SCRAM password (scram-sha-256 in pg_hba.conf and password_encryption), or remove channel_binding=require from source.postgres.dsn",
			"PostgreSQL at %s does not authenticate with channel binding but source.postgres.dsn asks for it", at)
	case strings.Contains(err.Error(), "x509:") || strings.Contains(err.Error(), "tls:"):
		fix := cmp.Or(cdc.TLSFix(err, "source.postgres.tls"), "correct source.postgres.tls, or sslmode and sslrootcert in source.postgres.dsn")
		return cdc.ConfigError("tls_certificate", fix, "TLS to PostgreSQL at %s failed (%s)", at, cdc.LastCause(err))
	case errors.Is(err, context.Canceled):
		return err
	case strings.Contains(err.Error(), "failed to receive message"): // the connection was accepted
		return cdc.Fixable("correct host and port in source.postgres.dsn, or see why the server does not answer",
			"%s accepts connections and does not answer as PostgreSQL does (%s)", at, cdc.LastCause(err))
	}
	return cdc.Fixable("start it, or correct host and port in source.postgres.dsn", "PostgreSQL at %s cannot be reached (%s)", at, cdc.LastCause(err))
}

// parameterError is for a parameter of the connection string that the server refuses.
func parameterError(pg *pgconn.PgError, cfg *pgconn.Config) error {
	for name := range cfg.RuntimeParams {
		if strings.Contains(pg.Message, `"`+name+`"`) {
			return cdc.ConfigError("dsn_parameter", "remove it", "source.postgres.dsn has the parameter %s, which PostgreSQL does not take (%s)", name, pg.Message)
		}
	}
	return cdc.ConfigError("dsn_parameter", "correct the parameters of source.postgres.dsn", "PostgreSQL refuses a setting of the connection, of its role or its database (%s)", pg.Message)
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
	return cdc.ConfigError("no_replication",
		fmt.Sprintf("run ALTER ROLE %s REPLICATION, or on a managed service grant its replication role (GRANT rds_replication TO %s)", quoted, quoted),
		"role %q may not replicate (%s)", role, said)
}

// serverError maps what the server says at a connect or in answer to a query.
func serverError(pg *pgconn.PgError, replication bool) error {
	switch pg.Code {
	case stateInvalidPassword:
		return cdc.ConfigError("password", "correct user and password in source.postgres.dsn", "PostgreSQL refuses the password (%s)", pg.Message)
	case stateInvalidAuthorizationSpecification:
		return authorizationError(pg, replication)
	case stateInvalidCatalogName:
		return cdc.ConfigError("database_missing", "correct the database in source.postgres.dsn", "%s", pg.Message)
	case stateInsufficientPrivilege:
		return cdc.ConfigError(noPrivilege, "grant it, or name another user in source.postgres.dsn", "the role of source.postgres.dsn lacks a right (%s)", pg.Message)
	case stateTooManyConnections:
		if strings.Contains(pg.Message, "max_wal_senders") {
			return cdc.ConfigError("no_walsender", "raise max_wal_senders and restart PostgreSQL, or stop a replica or relay that is not needed", "no walsender is free (%s)", pg.Message)
		}
		return cdc.Fixable("raise max_connections", "PostgreSQL has no connection free (%s)", pg.Message)
	case stateCannotConnectNow, stateAdminShutdown:
		return fmt.Errorf("%w: %s", ErrStopping, pg.Message)
	}
	if isPoolerRefusal(pg) {
		return behindPooler(pg)
	}
	return fmt.Errorf("PostgreSQL: %w", pg)
}

func authorizationError(pg *pgconn.PgError, replication bool) error {
	switch {
	case replication && strings.Contains(pg.Message, "pg_hba.conf"):
		return cdc.ConfigError("pg_hba", "add a line for its database (and TLS or not) to pg_hba.conf; logical replication matches the database's name, not the word replication", "PostgreSQL does not admit this relay (%s)", pg.Message)
	case strings.Contains(pg.Message, "pg_hba.conf"):
		return cdc.ConfigError("pg_hba", "add a line for it to pg_hba.conf, with sslmode=require in source.postgres.dsn where the line says hostssl", "PostgreSQL does not admit this relay (%s)", pg.Message)
	case strings.Contains(pg.Message, "client certificate"):
		return cdc.ConfigError("client_certificate", "set source.postgres.tls.cert and .key to a certificate of the role's name", "PostgreSQL refuses the role (%s)", pg.Message)
	}
	return cdc.ConfigError("role", "correct user, password or token of source.postgres, or grant the role LOGIN (RDS with IAM: rds_iam)", "PostgreSQL refuses the role (%s)", pg.Message)
}

// isPoolerRefusal knows how PgBouncer (before 1.23) and the pools made like it answer the replication
// parameter.
func isPoolerRefusal(pg *pgconn.PgError) bool {
	return strings.Contains(pg.Message, "unsupported startup parameter") ||
		pg.Code == stateProtocolViolation && strings.Contains(pg.Message, "replication")
}

// IdentifyError maps what IDENTIFY_SYSTEM answers: a pooler that swallowed the replication parameter hands
// the command to an ordinary session, which does not know it.
func IdentifyError(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == stateSyntaxError {
		return behindPooler(pg)
	}
	return fmt.Errorf("identify system: %w", err)
}

// ReplicationError maps what START_REPLICATION and slot commands answer.
func ReplicationError(err error, slot string) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Errorf("start replication from slot %s: %w", slot, err)
	}
	switch pg.Code {
	case stateObjectInUse:
		return fmt.Errorf("%w: %s", cdc.ErrStandby, pg.Message)
	case stateConfigurationLimitExceeded:
		return cdc.ConfigError("no_slot_free", "raise max_replication_slots and restart PostgreSQL, or drop an unused slot (SELECT * FROM pg_replication_slots)", "no replication slot is free (%s)", pg.Message)
	case stateObjectNotInPrerequisiteState:
		switch {
		case saysLost(pg.Message):
			return lostSlot(slot, pg.Message, thenKeepMore)
		case strings.Contains(pg.Message, "wal_level"):
			return cdc.ConfigError("wal_level", fixWALLevel, "wal_level is not logical")
		}
	case StateUndefinedObject:
		if strings.Contains(pg.Message, "publication") {
			return cdc.PositionError("slot_too_old", "drop it with `"+dropSlotSQL(slot)+"`, then publish what it did not send, and make it again, with `cdc-relay repair`, or without a checkpoint with `cdc-relay repair --since TIME`",
				"slot %q cannot be read with its publication (%s in its view), which was dropped or made after it", slot, pg.Message)
		}
		return MissingSlot(slot)
	}
	return serverError(pg, true)
}

// saysLost reports whether the server's message says that a slot is invalidated; the SQLSTATE has other meanings too. Where messages are
// translated, the next attempt reads it in the catalog.
func saysLost(message string) bool {
	return strings.HasPrefix(message, "can no longer access replication slot") || // PostgreSQL 18
		strings.HasPrefix(message, "can no longer get changes from replication slot") || // 14 to 17
		strings.HasPrefix(message, "cannot read from logical replication slot") // 14 and 15
}

func dropSlotSQL(slot string) string {
	return "SELECT pg_drop_replication_slot(" + QuoteLiteral(slot) + ")"
}

func behindPooler(pg *pgconn.PgError) error {
	return cdc.ConfigError("pooler", "point source.postgres.dsn at the database's direct endpoint", "a pooler is between relay and PostgreSQL and does not pass replication on (%s)", pg.Message)
}

// QueryError sorts a failed query: the server ending our session is its word for a shutdown.
func QueryError(conn *pgx.Conn, err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == stateAdminShutdown || pg.Code == stateCannotConnectNow) {
		return fmt.Errorf("%w: %s", ErrStopping, pg.Message)
	}
	return fmt.Errorf("ask PostgreSQL at %s: %w", address(&conn.Config().Config), err)
}

package binlog

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-sql-driver/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

const (
	connectTimeout = 10 * time.Second
	// queryTimeout bounds one question to the server.
	queryTimeout = 10 * time.Second
)

// endpoint reads the connection's settings, with TLS as the configuration or the DSN asks.
func (o *Options) endpoint(ctx context.Context) (*mysql.Config, error) {
	text, err := o.DSN(ctx)
	if err != nil {
		return nil, fmt.Errorf("source.mysql.dsn: %w", err)
	}
	cfg, err := mysql.ParseDSN(text)
	if err != nil {
		return nil, cdc.ConfigError("dsn", "write user@tcp(host:3306)/database", "source.mysql.dsn is not a connection string")
	}
	if o.TLS != nil {
		if cfg.TLS, err = o.TLS(); err != nil {
			return nil, cdc.ConfigError("tls_config", "correct the file, or its path", "source.mysql.tls: %w", err)
		}
	}
	if cfg.TLS != nil && cfg.TLS.ServerName == "" && !cfg.TLS.InsecureSkipVerify {
		host, _, err := net.SplitHostPort(cfg.Addr)
		if err == nil {
			cfg.TLS = cfg.TLS.Clone()
			cfg.TLS.ServerName = host
		}
	}
	cfg.ParseTime, cfg.Loc, cfg.InterpolateParams = false, time.UTC, true
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = connectTimeout, queryTimeout, queryTimeout
	cfg.Logger = &mysql.NopLogger{}
	return cfg, nil
}

// connectSQL opens an ordinary connection. The caller closes it.
func connectSQL(ctx context.Context, o *Options) (*sql.DB, *mysql.Config, error) {
	cfg, err := o.endpoint(ctx)
	if err != nil {
		return nil, nil, err
	}
	db, err := openSQL(ctx, cfg)
	return db, cfg, err
}

func openSQL(ctx context.Context, cfg *mysql.Config) (*sql.DB, error) {
	// Without a default database, which takes a right in it: a relay that may only replicate has none before
	// `cdc-relay setup` has made the table.
	cfg = cfg.Clone()
	cfg.DBName = ""
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	// Whatever the server's defaults are.
	cfg.Params["autocommit"], cfg.Params["time_zone"], cfg.Params["sql_select_limit"] = "1", "'+00:00'", "18446744073709551615"
	heard := &listener{}
	cfg.Logger = heard
	var reached atomic.Bool
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		reached.Store(err == nil)
		return conn, err
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, cdc.ConfigError("dsn", "write user@tcp(host:3306)/database", "source.mysql.dsn cannot be used: %w", err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := db.PingContext(ctx); err != nil {
		_ = db.Close()
		if lost := heard.last.Load(); errors.Is(err, mysql.ErrInvalidConn) && lost != nil {
			err = *lost
		}
		return nil, connectError(silent(err, reached.Load()), cfg)
	}
	return db, nil
}

// listener keeps the last error that the driver logs: for a connection that breaks it returns ErrInvalidConn, and logs why, as that
// the server refuses the client's certificate.
type listener struct{ last atomic.Pointer[error] }

// Print implements mysql.Logger.
func (l *listener) Print(v ...any) {
	for _, each := range v {
		if err, ok := each.(error); ok {
			l.last.Store(&err)
		}
	}
}

// connectReplication opens a connection for reading the binlog. The caller closes it.
func connectReplication(ctx context.Context, cfg *mysql.Config) (*client.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var guard *guardedConn
	reached := false
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{KeepAlive: connectTimeout}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		reached = true
		if cfg.TLS == nil && !cfg.AllowCleartextPasswords {
			guard = &guardedConn{Conn: conn}
			conn = guard
		}
		deadline, _ := ctx.Deadline()
		return conn, conn.SetDeadline(deadline) // for the handshake: the client has no context there
	}
	conn, err := client.ConnectWithDialer(ctx, cfg.Net, cfg.Addr, cfg.User, cfg.Passwd, "", dial, func(c *client.Conn) error {
		c.SetTLSConfig(cfg.TLS)
		c.SetAttributes(map[string]string{"_client_role": "binary_log_listener", "program_name": "cdc-relay"})
		return nil
	})
	switch {
	case err != nil && guard != nil && guard.asked:
		return nil, connectError(errCleartext, cfg)
	case err != nil:
		return nil, connectError(silent(err, reached), cfg)
	}
	if err := conn.SetDeadline(time.Now().Add(connectTimeout)); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("connect to %s: %w", cfg.Addr, err)
	}
	return conn, nil
}

// silentError is what came of a connection that was accepted, and of which nothing was heard in time or nothing that MySQL says.
type silentError struct{ error }

func (e *silentError) Unwrap() error { return e.error }

func silent(err error, reached bool) error {
	late, ok := errors.AsType[net.Error](err)
	if code, _ := number(err); reached && code == 0 && (ok && late.Timeout() || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, mysql.ErrMalformPkt) || errors.Is(err, mysql.ErrPktSync)) {
		return &silentError{err}
	}
	return err
}

var errCleartext = errors.New("it asks for the password in clear text")

// guardedConn ends a connection without TLS whose server asks for the password in clear text. The client for replication sends
// it to whoever asks; go-sql-driver needs allowCleartextPasswords for that.
type guardedConn struct {
	net.Conn

	seen  []byte // what was read so far, as the request may be split
	done  bool
	asked bool // the client drops the error
}

func (c *guardedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	const asks, longest = "\xfemysql_clear_password\x00", 4 << 10
	if c.done || n == 0 {
		return n, err // a net.Conn hands on its errors
	}
	c.seen = append(c.seen, b[:n]...)
	if c.asked = bytes.Contains(c.seen, []byte(asks)); c.asked {
		return 0, errCleartext
	}
	if c.done = len(c.seen) > longest; c.done { // the handshake is over
		c.seen = nil
	}
	return n, err
}

// Error numbers; source: the servers' error message references.
const (
	erAccessDenied      = 1045
	erDBAccessDenied    = 1044
	erUnknownDatabase   = 1049
	erTooManyConns      = 1040
	erTooManyOfUser     = 1203 // by max_user_connections
	erUserLimit         = 1226 // by a limit of the user's own
	erSpecificAccess    = 1227
	erTableAccess       = 1142
	erNoSuchTable       = 1146
	erHostNotPrivileged = 1130
	erSecureTransport   = 3159
	erMasterFatal       = 1236 // the binlog cannot be sent from here
	erGtidNotInBinlog   = 1955 // MariaDB
	erShutdown          = 1053
	eeFileNotFound      = 29 // MariaDB, of a file of its binlog
)

// number is the server's error number, of either client; 0: it is not the server's word.
func number(err error) (code uint16, said string) {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number, e.Message
	}
	if e, ok := errors.AsType[*gomysql.MyError](err); ok {
		return e.Code, e.Message
	}
	return 0, ""
}

// NoSuchTable reports whether err says that a table does not exist. Where a user has no right on it, the server does not tell.
func NoSuchTable(err error) bool {
	code, _ := number(err)
	return code == erNoSuchTable
}

// IsDenied reports whether err says that the user lacks a right on a table or database.
func IsDenied(err error) bool {
	code, _ := number(err)
	return code == erTableAccess || code == erDBAccessDenied
}

// connectError turns what a driver says into what a person must do. Everything is retryable except what only
// a person can fix.
func connectError(err error, cfg *mysql.Config) error {
	code, said := number(err)
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case code == erAccessDenied:
		fix := "correct user and password in source.mysql.dsn, or the host in CREATE USER"
		if cfg.TLS == nil { // what a user with REQUIRE SSL is told, and on MariaDB everybody where TLS is a must
			fix += ", or set source.mysql.tls if the server asks for TLS"
		}
		return cdc.ConfigError("password", fix, "MySQL refuses the user (%s)", said)
	case code == erDBAccessDenied:
		return cdc.ConfigError("no_privilege", "GRANT SELECT ON "+mysqlName(cfg.DBName)+".* TO the relay's user", "MySQL refuses the database (%s)", said)
	case code == erUnknownDatabase:
		return cdc.ConfigError("database_missing", "correct the database in source.mysql.dsn", "%s", said)
	case code == erHostNotPrivileged:
		return cdc.ConfigError("password", "CREATE USER for this host", "MySQL does not admit this relay (%s)", said)
	case code == erSecureTransport:
		return cdc.ConfigError("tls_required", "set source.mysql.tls, or tls=true in source.mysql.dsn", "MySQL asks for TLS (%s)", said)
	case code == erTooManyConns:
		return &cdc.FixableError{Cause: fmt.Errorf("MySQL has no connection free (%s)", said), Fix: "raise max_connections"}
	case code == erTooManyOfUser, code == erUserLimit:
		return &cdc.FixableError{Cause: fmt.Errorf("MySQL refuses the user another connection (%s)", said), Fix: "raise its limit: a relay needs 4 connections while it starts, and a standby 2 more"}
	case code != 0:
		return fmt.Errorf("MySQL at %s: %s (%d)", cfg.Addr, said, code)
	case errors.As(err, &dns):
		return &cdc.FixableError{Cause: fmt.Errorf("host %q of source.mysql.dsn does not resolve", dns.Name), Fix: "correct its name or the DNS"}
	case errors.As(err, &certificate), strings.Contains(err.Error(), "x509:"), strings.Contains(err.Error(), "tls:"):
		fix := cmp.Or(cdc.TLSFix(err, "source.mysql.tls"), "correct source.mysql.tls")
		return cdc.ConfigError("tls_certificate", fix, "TLS to MySQL at %s failed (%s)", cfg.Addr, cdc.LastCause(err))
	case errors.Is(err, errCleartext), errors.Is(err, mysql.ErrCleartextPassword):
		return cdc.ConfigError("cleartext", "add allowCleartextPasswords=true to source.mysql.dsn and set source.mysql.tls, if that is expected, as with IAM tokens",
			"MySQL at %s asks for the password in clear text", cfg.Addr)
	case errors.Is(err, mysql.ErrUnknownPlugin), strings.Contains(err.Error(), "auth plugin"):
		return cdc.ConfigError("auth_plugin", "give the relay a user of caching_sha2_password, mysql_native_password or ed25519",
			"MySQL at %s authenticates the user by a plugin that the relay does not have", cfg.Addr)
	case errors.Is(err, mysql.ErrNoTLS), strings.Contains(err.Error(), "does not support TLS"), strings.Contains(err.Error(), "does not support SSL"):
		return cdc.ConfigError("tls_refused", "switch TLS on at the server, or remove source.mysql.tls", "MySQL at %s does not offer TLS but the configuration asks for it", cfg.Addr)
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, new(*silentError)):
		return cdc.Fixable("correct host and port in source.mysql.dsn, or see why the server does not answer",
			"%s accepts connections and does not answer as MySQL does", cfg.Addr)
	}
	return &cdc.FixableError{
		Cause: fmt.Errorf("MySQL at %s cannot be reached (%s)", cfg.Addr, cdc.LastCause(err)),
		Fix:   "start it, or correct host and port in source.mysql.dsn",
	}
}

// dumpError maps the server's refusal to send its binlog, or to go on with it.
func (s *Source) dumpError(code uint16, said string) error {
	switch {
	case strings.Contains(said, "same server_uuid") || strings.Contains(said, "same server_id"):
		if s.opts.ServerID == 0 {
			return fmt.Errorf("another replica reads the binlog under our server id, choosing another: %s (%d)", said, code)
		}
		return cdc.Stop(cdc.ClassRuntime, "server_id_clash", fmt.Errorf("another replica reads the binlog under server id %d (%s)", s.opts.ServerID, said),
			"give each its own in source.mysql.server_id, or remove the setting to have a free one chosen")
	case strings.Contains(said, "diverged"): // MariaDB, whose later transactions have higher numbers than the position
		return cdc.PositionError("binlog_gap", sinceThen,
			"server cannot send its binlog from the position on (%s, %d): it has another history", said, code)
	case code == erGtidNotInBinlog, code == erMasterFatal && (strings.Contains(said, "GTID") || strings.Contains(said, "purged") || strings.Contains(said, "gtid")):
		return cdc.PositionError("binlog_gap", "publish what it held from the outbox table, and move the position, with `cdc-relay repair`; then keep binlogs for longer",
			"server cannot send its binlog from the position on (%s, %d): it was purged, or the server has another history", said, code)
	case code == erMasterFatal && strings.Contains(said, "anonymous"):
		return cdc.Stop(cdc.ClassRuntime, "gtid_mode", fmt.Errorf("server cannot send a transaction without a GTID, which was committed while gtid_mode was not ON (%s, %d)", said, code),
			gtidsAgain+", then "+nextFile)
	case code == erMasterFatal && !isTransient(said), code == eeFileNotFound:
		return cdc.Stop(cdc.ClassRuntime, "log_unreadable", fmt.Errorf("server cannot send its binlog from the position on (%s, %d), and will not by itself", said, code),
			"correct what it says; where the binlog is damaged or lost, "+nextFile)
	case code == erSpecificAccess, code == erAccessDenied:
		return cdc.ConfigError("no_replication", grantLog(s.flavor, s.account), "user may not read the binlog (%s)", said)
	}
	return fmt.Errorf("read binlog: %s (%d)", said, code)
}

// isTransient reports whether a server that cannot send its binlog may be able to after a while.
func isTransient(said string) bool {
	said = strings.ToLower(said)
	return strings.Contains(said, "memory allocation") || strings.Contains(said, "shutdown") || strings.Contains(said, "shutting down")
}

package mysql

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
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/socket"
)

const (
	// ConnectTimeout bounds the connecting.
	ConnectTimeout = 10 * time.Second
	// queryTimeout bounds one question to the server.
	queryTimeout = 10 * time.Second
)

// Options say which server is read, as whom, and which of its tables.
type Options struct {
	// DSN returns the connection in the form of go-sql-driver, with its password. It is called at every
	// connect, so that a rotated password is picked up.
	DSN func(context.Context) (string, error)
	// TLS returns how to secure the connection; nil: as the DSN says. It is called at every connect.
	TLS func() (*tls.Config, error)
	// ID names the binlog in checkpoints: it outlives the failover to another server. Empty: the flavor.
	ID string
	// Tables are the outbox tables with their database ("orders.outbox"), unquoted. Rows of others are
	// skipped before they are decoded.
	Tables []string
	// Maintained are the tables whose partitions the relay maintains; for Check.
	Maintained []outbox.Name
	// UnsafeSync accepts a server that may lose committed transactions in a crash (sync_binlog other than 1).
	UnsafeSync bool
	// WaitUntilVisible hands rows on only once a new statement on the server sees them.
	WaitUntilVisible bool
}

// Endpoint reads the connection's settings, with TLS as the configuration or the DSN asks.
func (o *Options) Endpoint(ctx context.Context) (*mysql.Config, error) {
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
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = ConnectTimeout, queryTimeout, queryTimeout
	cfg.Logger = &mysql.NopLogger{}
	return cfg, nil
}

// Connect opens an ordinary connection. The caller closes it.
func Connect(ctx context.Context, o *Options) (*sql.DB, *mysql.Config, error) {
	cfg, err := o.Endpoint(ctx)
	if err != nil {
		return nil, nil, err
	}
	db, err := Open(ctx, cfg)
	return db, cfg, err
}

// Open opens an ordinary connection with settings of [Options.Endpoint]. The caller closes it.
func Open(ctx context.Context, cfg *mysql.Config) (*sql.DB, error) {
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
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return socket.Direct(conn), nil
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, cdc.ConfigError("dsn", "write user@tcp(host:3306)/database", "source.mysql.dsn cannot be used: %w", err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	ctx, cancel := context.WithTimeout(ctx, ConnectTimeout)
	defer cancel()
	// MariaDB says that a password has expired only at a statement: a ping is none.
	if _, err := db.ExecContext(ctx, "DO 1"); err != nil {
		_ = db.Close()
		if lost := heard.last.Load(); errors.Is(err, mysql.ErrInvalidConn) && lost != nil {
			err = *lost
		}
		return nil, connectError(err, cfg)
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

// ConnectReplication opens a connection for reading the binlog. The caller closes it.
func ConnectReplication(ctx context.Context, cfg *mysql.Config) (*client.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, ConnectTimeout)
	defer cancel()
	var guard *guardedConn
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{KeepAlive: ConnectTimeout}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		conn = socket.Direct(conn)
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
		return nil, connectError(err, cfg)
	}
	if err := conn.SetDeadline(time.Now().Add(ConnectTimeout)); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("connect to %s: %w", cfg.Addr, err)
	}
	return conn, nil
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

// Of a locked account, of MySQL and of MariaDB; source: their error message references.
const (
	erAccountLocked        = 3118
	erAccountLockedMariaDB = 4151
)

func quoteUser(name string) string { return "'" + strings.ReplaceAll(name, "'", "''") + "'@'%'" }

// erSecureTransport is ER_SECURE_TRANSPORT_REQUIRED of MySQL 8; source: its error message reference.
const erSecureTransport = 3159

// ErrorNumber is the server's error number, of either client; 0: it is not the server's word.
func ErrorNumber(err error) (code uint16, said string) {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number, e.Message
	}
	if e, ok := errors.AsType[*gomysql.MyError](err); ok {
		return e.Code, e.Message
	}
	return 0, ""
}

// connectError turns what a driver says into what a person must do. Everything is retryable except what only
// a person can fix.
func connectError(err error, cfg *mysql.Config) error {
	code, said := ErrorNumber(err)
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case code == gomysql.ER_ACCESS_DENIED_ERROR:
		fix := "correct user and password in source.mysql.dsn, or the host in CREATE USER"
		if cfg.TLS == nil { // what a user with REQUIRE SSL is told, and on MariaDB everybody where TLS is a must
			fix += ", or set source.mysql.tls if the server asks for TLS"
		}
		return cdc.ConfigError("password", fix, "the server refuses the user (%s)", said)
	case code == gomysql.ER_HOST_NOT_PRIVILEGED:
		return cdc.ConfigError("password", "CREATE USER for this host", "the server does not admit this relay (%s)", said)
	case code == erSecureTransport:
		return cdc.ConfigError("tls_required", "set source.mysql.tls, or tls=true in source.mysql.dsn", "the server asks for TLS (%s)", said)
	case code == gomysql.ER_CON_COUNT_ERROR:
		return cdc.Fixable("raise max_connections", "the server has no connection free (%s)", said)
	case code == gomysql.ER_TOO_MANY_USER_CONNECTIONS, code == gomysql.ER_USER_LIMIT_REACHED:
		return cdc.Fixable(fmt.Sprintf(
			"raise the user's own limit (ALTER USER %s WITH MAX_USER_CONNECTIONS n MAX_CONNECTIONS_PER_HOUR 0, or max_user_connections of the server): a relay needs 4 connections while it starts, and a standby 2 more", quoteUser(cfg.User)),
			"the server refuses the user another connection (%s)", said)
	case code == gomysql.ER_MUST_CHANGE_PASSWORD, code == gomysql.ER_MUST_CHANGE_PASSWORD_LOGIN:
		return cdc.ConfigError("password", fmt.Sprintf("have an administrator run ALTER USER %s IDENTIFIED BY '...' PASSWORD EXPIRE NEVER, with the host in CREATE USER, and set the password in source.mysql", quoteUser(cfg.User)),
			"the password of user %s has expired (%s)", cfg.User, said)
	case code == erAccountLocked, code == erAccountLockedMariaDB:
		return cdc.ConfigError("account_locked", fmt.Sprintf("have an administrator run ALTER USER %s ACCOUNT UNLOCK, with the host in CREATE USER", quoteUser(cfg.User)),
			"the server refuses the user: its account is locked (%s)", said)
	case code == gomysql.ER_UNKNOWN_SYSTEM_VARIABLE:
		return cdc.ConfigError("parameter", "remove it", "source.mysql.dsn has a parameter that the server does not know (%s)", said)
	case code != 0:
		return fmt.Errorf("MySQL at %s: %s (%d)", cfg.Addr, said, code)
	case errors.As(err, &dns):
		return cdc.Fixable("correct its name or the DNS", "host %q of source.mysql.dsn does not resolve", dns.Name)
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
	}
	return cdc.Fixable("start it, or correct host and port in source.mysql.dsn", "MySQL at %s cannot be reached (%s)", cfg.Addr, cdc.LastCause(err))
}

// Source is the binlog's identity.
func (o *Options) Source(f cdc.Flavor, database string) cdc.Source {
	return cdc.Source{SystemID: cmp.Or(o.ID, string(f)), Database: database}
}

// Account returns the account that the server took us for, as SQL reads it. A server that does not say is no reason
// to fail: it is for texts.
func Account(ctx context.Context, db *sql.DB) string {
	var role string
	if err := db.QueryRowContext(ctx, `SELECT CURRENT_USER()`).Scan(&role); err != nil {
		return "the relay's user"
	}
	return AccountOf(role)
}

// AccountOf quotes user@host.
func AccountOf(role string) string { return outbox.MySQLAccount(role) }

// GrantLog is [outbox.MySQLLogGrant].
func GrantLog(f cdc.Flavor, account string) string { return outbox.MySQLLogGrant(f, account) }

// QuoteName quotes a name in SQL.
func QuoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// quoteTable quotes the name of a table with its database.
func quoteTable(name string) string {
	schema, table, _ := strings.Cut(name, ".")
	return QuoteName(schema) + "." + QuoteName(table)
}

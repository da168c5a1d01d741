package postgres

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/socket"
)

// walSenderTimeout is set on our own replication connection: after this machine dies, its walsender
// holds the slot that long, and a standby waits. statusInterval must stay well below it.
const walSenderTimeout = "10s"

// connectTimeout bounds the connecting to each host, unless the connection string has a connect_timeout: a host that is
// silent must not use up the time of the next one.
const connectTimeout = 10 * time.Second

// Options says which database is read, and which of its tables, through which slot and publication.
type Options struct {
	// DSN returns the connection string or URL. It is called at every connect, so that a rotated
	// password is picked up.
	DSN func(context.Context) (string, error)
	// TLS returns how to secure the connections; nil: as the DSN says. It is called at every connect.
	TLS func() (*tls.Config, error)
	// Slot and Publication are names as the database spells them, unquoted.
	Slot, Publication string
	// Tables are the outbox tables, schema-qualified and unquoted ("public.outbox"). Rows of other
	// tables in the publication are skipped before they are decoded.
	Tables []string
	// Needs reports whether a column of a table is needed; nil: every one that is published is.
	Needs func(table, column string) bool
	// Maintained are the tables whose partitions the relay maintains; for Check.
	Maintained []outbox.Name
	// WaitUntilVisible holds rows back until a statement on the server sees them.
	WaitUntilVisible bool
}

// Needed reports whether a column of a table is needed.
func (o *Options) Needed(table, column string) bool { return o.Needs == nil || o.Needs(table, column) }

// lastNotice is the key under which a connection has the last notice of its server.
const lastNotice = "notice"

// emptyPath is for questions of the catalog: whoever may create operators in a schema of the path could have them run his own, with the rights
// of who asks (CVE-2018-1058). SQL of the user, and triggers, count on the path.
const emptyPath = "SET search_path = ''"

// Connect opens an ordinary connection, with an empty search_path. The caller closes it.
func Connect(ctx context.Context, o Options) (*pgx.Conn, error) {
	cfg, err := o.settings(ctx)
	if err != nil {
		return nil, err
	}
	cfg.RuntimeParams["statement_timeout"] = "10s"
	// No prepared statements: this connection asks the same few questions, and a pooler in between
	// must be told apart by its own words, not by a lost statement.
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	cfg.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) { conn.CustomData()[lastNotice] = n }
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return socket.Direct(conn), nil
	}
	cfg.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error { return conn.Exec(ctx, emptyPath).Close() }
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, connectError(err, &cfg.Config, false)
	}
	return conn, nil
}

// ConnectReplication opens a logical replication connection whose reads are paced. The caller closes it.
func ConnectReplication(ctx context.Context, o Options) (*pgconn.PgConn, error) {
	settings, err := o.settings(ctx)
	if err != nil {
		return nil, err
	}
	cfg := &settings.Config
	maps.Copy(cfg.RuntimeParams, map[string]string{"replication": "database", "wal_sender_timeout": walSenderTimeout, "bytea_output": "hex"})
	cfg.DialFunc = dialPaced(cfg.DialFunc)
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, connectError(err, cfg, true)
	}
	// The server decodes a transaction within one of its own, so a transaction_timeout would end it. It is no parameter of the connection
	// because servers before PostgreSQL 17 do not know it. Numbers are printed as readerSettings has them, which PgBouncer takes for no parameter.
	if _, err := conn.Exec(ctx, NoTimeouts+"; SET extra_float_digits = 1; SET client_min_messages = warning").ReadAll(); err != nil {
		CloseConn(ctx, conn)
		return nil, connectError(err, cfg, true)
	}
	return conn, nil
}

// forLibpq leaves out the parameters that libpq keeps to itself and the driver would send to the server. Those that would make the
// connection safer, such as sslcrl, are not among them: the server refuses them.
func forLibpq(cfg *pgconn.Config) {
	for _, name := range []string{"keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout", "load_balance_hosts", "fallback_application_name"} {
		delete(cfg.RuntimeParams, name)
	}
	if cfg.RuntimeParams["gssencmode"] != "require" {
		delete(cfg.RuntimeParams, "gssencmode")
	}
}

// settings are those of every connection.
func (o *Options) settings(ctx context.Context) (*pgx.ConnConfig, error) {
	text, err := o.DSN(ctx)
	if err != nil {
		return nil, fmt.Errorf("source.postgres.dsn: %w", err)
	}
	cfg, err := pgx.ParseConfig(text)
	if err != nil {
		return nil, cdc.ConfigError("dsn", "write it like postgres://user@host:5432/database", "source.postgres.dsn is not a PostgreSQL connection string or URL")
	}
	if err := secure(&cfg.Config, o.TLS); err != nil {
		return nil, err
	}
	forLibpq(&cfg.Config)
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, connectTimeout)
	maps.Copy(cfg.RuntimeParams, map[string]string{
		"application_name": applicationName, "client_encoding": "UTF8",
		"TimeZone": "UTC", "DateStyle": "ISO", // bounds of partitions are read as text
	})
	return cfg, nil
}

// secure has every host reached with TLS as the configuration says, and none without.
func secure(cfg *pgconn.Config, section func() (*tls.Config, error)) error {
	if section == nil {
		return nil
	}
	base, err := section()
	if err != nil {
		return cdc.Stop(cdc.ClassConfig, "tls", fmt.Errorf("source.postgres.tls: %w", err), "correct the file, or its path")
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

// CloseConn ends a connection that the driver still owns, also after ctx ended.
func CloseConn(ctx context.Context, conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// QuoteLiteral quotes a text in SQL.
func QuoteLiteral(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

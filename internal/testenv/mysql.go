package testenv

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/go-sql-driver/mysql"
)

// MySQLOptions are the options of a server. The zero value is MySQL 9 with all settings that the relay requires and a root
// without password.
type MySQLOptions struct {
	Flavor   string            // MySQLFlavor (default) or MariaDBFlavor.
	Release  string            // MariaDB114, MariaDB118, or "" for the flavor's default.
	Settings map[string]string // Lines of my.cnf; they replace defaults.
	TLS      bool              // Adds a certificate for 127.0.0.1 and localhost; see Certs. Otherwise there is no TLS.
}

// MySQLStop is a way to stop a server.
type MySQLStop syscall.Signal

// The ways to stop MySQL.
const (
	MySQLShutdown = MySQLStop(syscall.SIGTERM) // disconnects clients and flushes
	MySQLCrash    = MySQLStop(syscall.SIGKILL) // recovers at the next start
)

// MySQLServer is a MySQL or MariaDB server on 127.0.0.1. Its methods are safe for use from several goroutines,
// except that starts and stops must not overlap.
type MySQLServer struct {
	Flavor  string
	Version string     // such as "9.7.4"
	Certs   *Authority // nil without TLS

	daemon
	prog *mysqlProgram
}

// StartMySQL starts a server and waits until it is ready. It ends with Close or with this process.
func StartMySQL(ctx context.Context, o MySQLOptions) (_ *MySQLServer, err error) {
	store, err := newStore(io.Discard)
	if err != nil {
		return nil, err
	}
	m := &MySQLServer{Flavor: o.Flavor}
	if m.Flavor == "" {
		m.Flavor = MySQLFlavor
	}
	if m.prog, err = store.mysqlProgram(ctx, m.Flavor, o.Release); err != nil {
		return nil, err
	}
	m.Version = m.prog.release
	if m.daemon, err = newDaemon(ctx, m.Flavor, "KILL"); err != nil {
		return nil, err
	}
	if err := m.configure(o); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if err := m.initialise(ctx, store); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if err := m.Start(ctx); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Start starts the server on the same data and port and waits until it is ready.
func (m *MySQLServer) Start(ctx context.Context) error {
	if err := m.inst.start(ctx, m.prog.command(m.prog.daemon(), "--defaults-file="+m.inst.path("my.cnf"))); err != nil {
		return err
	}
	if err := m.inst.awaitReady(ctx, m.ping); err != nil {
		return fmt.Errorf("start %s: %w", flavorName(m.Flavor), err)
	}
	return nil
}

func (m *MySQLServer) ping(ctx context.Context) error { return m.Exec(ctx, "", "DO 1") }

// Stop stops the server. If ctx ends first, it kills the server.
func (m *MySQLServer) Stop(ctx context.Context, how MySQLStop) error {
	return m.inst.stop(ctx, syscall.Signal(how))
}

// Restart is Stop and Start.
func (m *MySQLServer) Restart(ctx context.Context, how MySQLStop) error {
	if err := m.Stop(ctx, how); err != nil {
		return err
	}
	return m.Start(ctx)
}

// Close kills the server and removes its data.
func (m *MySQLServer) Close() error { return m.inst.close() }

// ClientTLS returns a configuration that trusts the server's certificate, nil without TLS.
func (m *MySQLServer) ClientTLS() *tls.Config {
	if m.Certs == nil {
		return nil
	}
	config := m.Certs.ClientConfig()
	config.ServerName = "127.0.0.1"
	return config
}

// DSN returns root's go-sql-driver DSN over TCP without TLS. params are such as "parseTime=true&loc=UTC".
func (m *MySQLServer) DSN(database, params string) string {
	return m.UserDSN("root", "", database, params)
}

// UserDSN returns the DSN of another user.
func (m *MySQLServer) UserDSN(user, password, database, params string) string {
	dsn := m.config(user, password, database).FormatDSN()
	if params == "" {
		return dsn
	}
	return dsn + "?" + params
}

func (m *MySQLServer) config(user, password, database string) *mysql.Config {
	config := mysql.NewConfig()
	config.Net, config.Addr, config.DBName = "tcp", m.Addr(), database
	config.User, config.Passwd = user, password
	return config
}

// Open returns a pool of root's connections over TCP, with TLS if the server has it, that does not log lost connections.
// change, if not nil, changes its configuration.
func (m *MySQLServer) Open(database string, change func(*mysql.Config)) (*sql.DB, error) {
	config := m.config("root", "", database)
	config.Logger, config.ParseTime = &mysql.NopLogger{}, true
	config.TLS = m.ClientTLS()
	if change != nil {
		change(config)
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// Exec runs statements as root over the Unix socket.
func (m *MySQLServer) Exec(ctx context.Context, database, statements string) error {
	return m.local(database, func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, statements)
		return err
	})
}

// Value runs a query as root over the Unix socket and returns the first column as text; "" for NULL.
func (m *MySQLServer) Value(ctx context.Context, query string, args ...any) (string, error) {
	var value sql.NullString
	err := m.local("", func(db *sql.DB) error { return db.QueryRowContext(ctx, query, args...).Scan(&value) })
	return value.String, err
}

// Column runs a statement as root over the Unix socket and returns the named column of its rows as text.
func (m *MySQLServer) Column(ctx context.Context, statement, name string) (values []string, err error) {
	err = m.local("", func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, statement)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		names, err := rows.Columns()
		if err != nil {
			return err
		}
		index := slices.Index(names, name)
		if index < 0 {
			return fmt.Errorf("%s: no column %s among %v", statement, name, names)
		}
		row, dest := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range row {
			dest[i] = &row[i]
		}
		for rows.Next() {
			if err := rows.Scan(dest...); err != nil {
				return err
			}
			values = append(values, row[index].String)
		}
		return rows.Err()
	})
	return values, err
}

func (m *MySQLServer) local(database string, use func(*sql.DB) error) error {
	db, err := m.Open(database, func(config *mysql.Config) {
		config.Net, config.Addr, config.TLS = "unix", m.inst.path("server.sock"), nil
		config.MultiStatements, config.InterpolateParams = true, true
	})
	if err != nil {
		return err
	}
	return errors.Join(use(db), db.Close())
}

// CreateDatabase creates a database.
func (m *MySQLServer) CreateDatabase(ctx context.Context, name string) error {
	return m.Exec(ctx, "", "CREATE DATABASE "+quoteMySQL(name))
}

// CreateUser creates a user that may connect from 127.0.0.1 only. plugin is the authentication plugin, such as
// "caching_sha2_password"; "" is the server's default. grants are such as "SELECT ON shop.outbox".
func (m *MySQLServer) CreateUser(ctx context.Context, name, password, plugin string, grants ...string) error {
	secret := "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(password) + "'"
	identified := "BY " + secret
	switch {
	case plugin != "" && m.Flavor == MariaDBFlavor:
		identified = "VIA " + plugin + " USING PASSWORD(" + secret + ")"
	case plugin != "":
		identified = "WITH " + plugin + " BY " + secret
	}
	user := quoteMySQL(name) + "@'127.0.0.1'"
	statements := []string{"CREATE USER " + user + " IDENTIFIED " + identified}
	for _, grant := range grants {
		statements = append(statements, "GRANT "+grant+" TO "+user)
	}
	return m.Exec(ctx, "", strings.Join(statements, "; "))
}

// ReplicationRights returns the rights with which a user may read the binlog.
func (m *MySQLServer) ReplicationRights() string {
	if m.Flavor == MariaDBFlavor {
		return "REPLICATION SLAVE, BINLOG MONITOR, SLAVE MONITOR"
	}
	return "REPLICATION SLAVE, REPLICATION CLIENT"
}

func quoteMySQL(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

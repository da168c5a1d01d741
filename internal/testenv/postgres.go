package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// PostgresOptions are the options of a server. The zero value is PostgreSQL 15 with wal_level=logical, trust
// authentication on 127.0.0.1 and no fsync.
type PostgresOptions struct {
	Version  int               // Major version, 14 to 19; 0 is defaultPostgres; see AnyPostgres.
	Settings map[string]string // Lines of postgresql.conf; they replace defaults.
	HBA      []string          // pg_hba.conf for TCP; nil trusts 127.0.0.1. The superuser can always use the socket.
	TLS      bool              // ssl=on with a certificate for 127.0.0.1 and localhost; see Certs.
	Durable  bool              // Leaves fsync and full_page_writes on, for tests that crash the server.
}

// AnyPostgres as a version is an installed or cached PostgreSQL from 14 on, else defaultPostgres.
const AnyPostgres = -1

// PostgresStop is a way to stop a server.
type PostgresStop syscall.Signal

// The shutdown modes of PostgreSQL.
const (
	Fast      = PostgresStop(syscall.SIGINT)  // disconnects clients; waits for walsenders to deliver
	Immediate = PostgresStop(syscall.SIGQUIT) // a crash: recovers at the next start
)

// PostgresServer is a PostgreSQL server on 127.0.0.1. Its methods are safe for use from several goroutines,
// except that starts and stops must not overlap.
type PostgresServer struct {
	Version int        // major
	Certs   *Authority // nil without TLS

	daemon
	prog *program
}

// StartPostgres starts a server and waits until it is ready. It ends with Close or with this process.
func StartPostgres(ctx context.Context, o PostgresOptions) (_ *PostgresServer, err error) {
	store, err := newStore(io.Discard)
	if err != nil {
		return nil, err
	}
	p := &PostgresServer{Version: o.Version}
	if p.prog, err = p.choose(ctx, store); err != nil {
		return nil, err
	}
	if p.daemon, err = newDaemon(ctx, "postgres", "QUIT"); err != nil {
		return nil, err
	}
	if err := p.initialise(ctx, o); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if err := p.Start(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *PostgresServer) choose(ctx context.Context, store *store) (prog *program, err error) {
	switch p.Version {
	case AnyPostgres:
		prog, p.Version, err = store.anyPostgres(ctx)
		return prog, err
	case 0:
		p.Version = defaultPostgres
	}
	return store.postgresProgram(ctx, p.Version)
}

func (p *PostgresServer) initialise(ctx context.Context, o PostgresOptions) error {
	err := p.inst.run(ctx, p.prog.command("initdb", "-D", p.data(), "-U", "postgres", "-A", "trust",
		"-E", "UTF8", "--no-locale", "--no-sync", "--no-instructions"))
	if err != nil {
		return err
	}
	settings := postgresDefaults(p.port.number, p.inst.dir, o.Durable)
	hba := o.HBA
	if hba == nil {
		hba = []string{"host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"}
	}
	if o.TLS {
		if err := p.encrypt(settings); err != nil {
			return err
		}
	}
	maps.Copy(settings, o.Settings)
	if _, err := p.inst.write("data/postgresql.auto.conf", renderSettings(settings)); err != nil {
		return err
	}
	return p.setHBA(hba...)
}

func postgresDefaults(port int, socketDir string, durable bool) map[string]string {
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(port),
		"unix_socket_directories": socketDir,
		"wal_level":               "logical",
		"max_wal_senders":         "20",
		"max_replication_slots":   "20",
		"max_wal_size":            "4GB",
		"jit":                     "off",
		"timezone":                "GMT",
		"log_timezone":            "GMT",
		"log_line_prefix":         "%m [%p] %u@%d ",
	}
	if !durable {
		settings["fsync"] = "off"
		settings["full_page_writes"] = "off"
	}
	return settings
}

// encrypt creates the server's certificate.
func (p *PostgresServer) encrypt(settings map[string]string) (err error) {
	if p.Certs, err = newAuthority(p.inst); err != nil {
		return err
	}
	cert, key, err := p.Certs.issue(p.inst)
	if err != nil {
		return err
	}
	maps.Copy(settings, map[string]string{"ssl": "on", "ssl_cert_file": cert, "ssl_key_file": key, "ssl_ca_file": p.Certs.CAFile})
	return nil
}

func renderSettings(settings map[string]string) string {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s = '%s'\n", key, strings.ReplaceAll(settings[key], "'", "''"))
	}
	return text.String()
}

// setHBA writes pg_hba.conf with lines for TCP.
func (p *PostgresServer) setHBA(lines ...string) error {
	text := "local all postgres trust\nlocal replication postgres trust\n" + strings.Join(lines, "\n") + "\n"
	_, err := p.inst.write("data/pg_hba.conf", text)
	return err
}

// Start starts the server on the same data and port and waits until it is ready.
func (p *PostgresServer) Start(ctx context.Context) error {
	if err := p.inst.start(ctx, p.prog.command("postgres", "-D", p.data())); err != nil {
		return err
	}
	if err := p.inst.awaitReady(ctx, p.ping); err != nil {
		return fmt.Errorf("start PostgreSQL %d: %w", p.Version, err)
	}
	return nil
}

func (p *PostgresServer) ping(ctx context.Context) error {
	return p.Exec(ctx, "postgres", "SELECT 1")
}

// Stop stops the server. If ctx ends first, it kills the server.
func (p *PostgresServer) Stop(ctx context.Context, mode PostgresStop) error {
	return p.inst.stop(ctx, syscall.Signal(mode))
}

// Restart is Stop and Start.
func (p *PostgresServer) Restart(ctx context.Context, mode PostgresStop) error {
	if err := p.Stop(ctx, mode); err != nil {
		return err
	}
	return p.Start(ctx)
}

// Close ends the server and removes its data.
func (p *PostgresServer) Close() error {
	if p.PID() != 0 {
		_ = p.Resume() // a paused server does not react to signals
	}
	deadline := make(chan struct{})
	timer := time.AfterFunc(10*time.Second, func() { close(deadline) })
	defer timer.Stop()
	return errors.Join(p.inst.stopUntil(deadline, syscall.Signal(Immediate)), p.inst.close())
}

// DSN returns a connection URL over TCP. If the server has TLS, the URL uses it and verifies the certificate. user "" is
// the superuser postgres. params are pairs of key and value; the key password sets the password.
func (p *PostgresServer) DSN(database, user string, params ...string) string {
	if user == "" {
		user = "postgres"
	}
	u := url.URL{Scheme: "postgres", User: url.User(user), Host: p.Addr(), Path: "/" + database}
	query := url.Values{"sslmode": {"disable"}}
	if p.Certs != nil {
		query = url.Values{"sslmode": {"verify-full"}, "sslrootcert": {p.Certs.CAFile}}
	}
	for pair := range slices.Chunk(params, 2) {
		if pair[0] == "password" {
			u.User = url.UserPassword(user, pair[1])
			continue
		}
		query.Set(pair[0], pair[1])
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// CreateDatabase creates a database.
func (p *PostgresServer) CreateDatabase(ctx context.Context, name string) error {
	return p.Exec(ctx, "postgres", "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
}

// Exec runs statements as the superuser over the Unix socket.
func (p *PostgresServer) Exec(ctx context.Context, database, sql string) error {
	dsn := fmt.Sprintf("host=%s port=%d user=postgres dbname=%s sslmode=disable", p.inst.dir, p.port.number, database)
	conn, err := pgconn.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, sql).ReadAll()
	return err
}

// Alter changes settings, such as "wal_keep_size = '1GB'", while the server runs.
func (p *PostgresServer) Alter(ctx context.Context, settings ...string) error {
	for _, setting := range settings {
		if err := p.Exec(ctx, "postgres", "ALTER SYSTEM SET "+setting); err != nil {
			return err
		}
	}
	return p.Exec(ctx, "postgres", "SELECT pg_reload_conf()")
}

func (p *PostgresServer) data() string { return p.inst.path("data") }

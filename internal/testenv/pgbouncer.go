package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// PgBouncerServer is a connection pooler in front of a PostgreSQL server.
type PgBouncerServer struct {
	daemon
}

// PgBouncer starts a pooler in front of target for one test. It may be of a release before 1.23, the first that passes replication on.
func PgBouncer(tb testing.TB, target *PostgresServer, settings ...string) *PgBouncerServer {
	tb.Helper()
	return newPgBouncer(tb, target, false, settings)
}

// NewPgBouncer starts one that passes replication on.
func NewPgBouncer(tb testing.TB, target *PostgresServer, settings ...string) *PgBouncerServer {
	tb.Helper()
	return newPgBouncer(tb, target, true, settings)
}

func newPgBouncer(tb testing.TB, target *PostgresServer, unstable bool, settings []string) *PgBouncerServer {
	tb.Helper()
	p, err := startPgBouncer(starting(tb), target, unstable, settings)
	return started(tb, "PgBouncer", p, err)
}

// startPgBouncer starts a pooler in transaction mode that accepts every client and connects as the superuser.
// settings are more lines of its [pgbouncer] section.
func startPgBouncer(ctx context.Context, target *PostgresServer, unstable bool, settings []string) (*PgBouncerServer, error) {
	store, err := newStore(io.Discard)
	if err != nil {
		return nil, err
	}
	prog, err := store.pgbouncerProgram(ctx, unstable)
	if err != nil {
		return nil, err
	}
	p := &PgBouncerServer{}
	if p.daemon, err = newDaemon(ctx, "pgbouncer", "KILL"); err != nil {
		return nil, err
	}
	ini, err := p.inst.write("pgbouncer.ini", p.render(target, settings))
	if err == nil {
		err = p.inst.start(ctx, prog.command("pgbouncer", ini))
	}
	if err == nil {
		err = p.inst.awaitReady(ctx, p.ping)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start PgBouncer: %w", err), p.Close())
	}
	return p, nil
}

func (p *PgBouncerServer) render(target *PostgresServer, settings []string) string {
	return fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%d user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"+
		"unix_socket_dir =\nauth_type = any\npool_mode = transaction\n", target.port.number, p.port.number) + strings.Join(settings, "\n") + "\n"
}

func (p *PgBouncerServer) ping(ctx context.Context) error {
	conn, err := pgconn.Connect(ctx, "postgres://postgres@"+p.Addr()+"/postgres?sslmode=disable")
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// Close ends the pooler.
func (p *PgBouncerServer) Close() error {
	p.inst.signalGroup(syscall.SIGTERM)
	return p.inst.close()
}

// pgbouncerProgram gets PgBouncer from this machine or from Debian's packages.
func (s *store) pgbouncerProgram(ctx context.Context, unstable bool) (*program, error) {
	if unstable {
		return s.unstableProgram(ctx, "pgbouncer", "usr/sbin", "pgbouncer")
	}
	if found := beside(ctx, "pgbouncer", 1, "/usr/sbin"); found != nil {
		return found, nil
	}
	found, err := s.debianProgram(ctx, "pgbouncer", "usr/sbin", "pgbouncer")
	if err != nil {
		return nil, fmt.Errorf("PgBouncer is missing and could not be fetched: install it (on Debian `apt-get install pgbouncer`): %w", err)
	}
	return found, nil
}

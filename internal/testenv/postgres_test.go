package testenv_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

func TestPostgresServesAndKeepsItsData(t *testing.T) {
	t.Parallel()
	p := testenv.Postgres(t, testenv.PostgresOptions{Durable: true})
	ctx := t.Context()
	must(t, p.CreateDatabase(ctx, "shop"))
	must(t, p.Exec(ctx, "shop", "CREATE TABLE t (n int); INSERT INTO t VALUES (42)"))
	addr := p.Addr()
	for _, mode := range []testenv.PostgresStop{testenv.Fast, testenv.Immediate} {
		must(t, p.Restart(ctx, mode))
		if p.Addr() != addr {
			t.Fatalf("address changed from %s to %s", addr, p.Addr())
		}
		if got := queryText(t, p.DSN("shop", ""), "SELECT n FROM t"); got != "42" {
			t.Fatalf("after stop %v: got %q", mode, got)
		}
	}
}

func TestEveryPostgresVersionDecodesLogically(t *testing.T) {
	t.Parallel()
	for version := 14; version <= 19; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			p := testenv.Postgres(t, testenv.PostgresOptions{Version: version})
			got := queryText(t, p.DSN("postgres", ""), "SELECT current_setting('server_version_num')::int / 10000")
			if got != fmt.Sprint(version) {
				t.Fatalf("server is version %s", got)
			}
			slot := queryText(t, p.DSN("postgres", ""), "SELECT slot_name FROM pg_create_logical_replication_slot('s', 'pgoutput')")
			if slot != "s" {
				t.Fatalf("got slot %q", slot)
			}
		})
	}
}

func TestPostgresWithTLSAndPasswords(t *testing.T) {
	t.Parallel()
	p := testenv.Postgres(t, testenv.PostgresOptions{
		TLS:      true,
		HBA:      []string{"hostssl all all 127.0.0.1/32 scram-sha-256"},
		Settings: map[string]string{"wal_level": "replica", "max_slot_wal_keep_size": "64MB"},
	})
	must(t, p.Exec(t.Context(), "postgres", "CREATE ROLE relay LOGIN PASSWORD 'it''s'"))
	dsn := p.DSN("postgres", "relay", "password", "it's")
	if got := queryText(t, dsn, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"); got != "true" {
		t.Fatalf("ssl is %s", got)
	}
	if got := queryText(t, dsn, "SELECT current_setting('wal_level')"); got != "replica" {
		t.Fatalf("wal_level is %s", got)
	}
	refused(t, p.DSN("postgres", "relay", "password", "wrong"), "password authentication failed")
	refused(t, p.DSN("postgres", "relay", "password", "it's", "sslmode", "disable"), "no pg_hba.conf entry")
}

func TestPausedPostgresAnswersAfterResume(t *testing.T) {
	t.Parallel()
	p := testenv.Postgres(t, testenv.PostgresOptions{Version: testenv.AnyPostgres})
	conn, err := pgx.Connect(t.Context(), p.DSN("postgres", ""))
	must(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	must(t, p.Pause())
	answered := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), "SELECT 1")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("a paused backend answered: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	must(t, p.Resume())
	must(t, <-answered)
}

func TestProxyCutsAndRestores(t *testing.T) {
	t.Parallel()
	p := testenv.Postgres(t, testenv.PostgresOptions{})
	proxy := testenv.Proxy(t, p.Addr())
	through := strings.Replace(p.DSN("postgres", ""), p.Addr(), proxy.Addr(), 1)
	queryText(t, through, "SELECT 1")
	proxy.Cut()
	refused(t, through, "refused")
	must(t, proxy.Restore())
	queryText(t, through, "SELECT 1")
}

func refused(t *testing.T, dsn, want string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err == nil {
		_ = conn.Close(t.Context())
		t.Fatal("the connection was accepted")
	}
	if !strings.Contains(err.Error(), want) {
		t.Fatalf("got %v, want %q", err, want)
	}
}

func queryText(t *testing.T, dsn, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	must(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	var text string
	must(t, conn.QueryRow(t.Context(), "SELECT ("+sql+")::text").Scan(&text))
	return text
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

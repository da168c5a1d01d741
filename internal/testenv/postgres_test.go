package testenv_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

func TestPostgresServesAndKeepsItsData(t *testing.T) {
	p := testenv.Postgres(t, testenv.PostgresOptions{})
	ctx := t.Context()
	must(t, p.CreateDatabase(ctx, "shop"))
	must(t, p.Exec(ctx, "shop", "CREATE TABLE t (n int); INSERT INTO t VALUES (42)"))
	for _, mode := range []testenv.PostgresStop{testenv.Fast, testenv.Immediate, testenv.Smart} {
		addr := p.Addr()
		must(t, p.Restart(ctx, mode))
		if p.Addr() != addr {
			t.Fatalf("address changed from %s to %s", addr, p.Addr())
		}
		if got := queryText(t, p.DSN("shop", ""), "SELECT n FROM t"); got != "42" {
			t.Fatalf("after stop %v: got %q", mode, got)
		}
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

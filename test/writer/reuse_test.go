package writer_test

import (
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/pgxwriter"
)

// Drivers that cache prepared statements keep one for each text, on each connection.

func TestTheWriterNeedsFewPreparedStatements(t *testing.T) {
	db := newDatabase(t, server, plain("public.outbox"))
	pool, err := sql.Open("pgx", server.DSN(db.name, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	tx, err := pool.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	events, err := writer.New(writer.Postgres)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 300; n++ {
		if err := events.Append(t.Context(), tx, newEvents(n)...); err != nil {
			t.Fatal(err)
		}
	}
	var prepared int
	const query = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'INSERT%'"
	if err := tx.QueryRowContext(t.Context(), query).Scan(&prepared); err != nil {
		t.Fatal(err)
	}
	if prepared != 21 {
		t.Errorf("%d prepared statements for 1 to 300 events, want 21", prepared)
	}
}

func TestPgxwriterNeedsTwoPreparedStatements(t *testing.T) {
	db := newDatabase(t, server, plain("public.outbox"))
	conn, err := pgx.Connect(t.Context(), server.DSN(db.name, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	events, err := pgxwriter.New()
	if err != nil {
		t.Fatal(err)
	}
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	for n := 1; n <= 300; n++ {
		if err := events.Append(t.Context(), tx, newEvents(n)...); err != nil {
			t.Fatal(err)
		}
	}
	var prepared int
	const query = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'INSERT%'"
	if err := tx.QueryRow(t.Context(), query).Scan(&prepared); err != nil {
		t.Fatal(err)
	}
	if prepared != 2 {
		t.Errorf("%d prepared statements for 1 to 300 events, want 2", prepared)
	}
}

package writer_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "github.com/lib/pq"              // the driver "postgres"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/pgxwriter"
)

type postgres struct{ *testenv.PostgresServer }

func (p postgres) String() string { return fmt.Sprintf("PostgreSQL %d", p.Version) }

func (p postgres) dialect() writer.Dialect { return writer.Postgres }

func (p postgres) look(database string) (*sql.DB, error) { return sql.Open("pgx", p.DSN(database, "")) }

func (p postgres) script(o outbox.TableOptions) []outbox.Statement {
	if o.Name.Schema == "" {
		o.Name.Schema = "public"
	}
	s := outbox.PostgresTable(o)
	if o.Name.Schema == "public" {
		return s.Up
	}
	return append([]outbox.Statement{{SQL: "CREATE SCHEMA IF NOT EXISTS " + outbox.Quote(o.Name.Schema)}}, s.Up...)
}

func (p postgres) speech() speech {
	return speech{
		clear: "TRUNCATE ",
		rows: `SELECT replace(event_id::text, '-', ''), aggregate_type, aggregate_id, event_type, tenant_id, topic, partition_key, content_type,
	schema_id, schema_version::text, headers::text, %s,
	(extract(epoch from occurred_at) * 1000000)::bigint, (extract(epoch from created_at) * 1000)::bigint,
	created_at BETWEEN now() - interval '5 minutes' AND now()
FROM %s ORDER BY tableoid, ctid`,
		payload:     "encode(payload, 'hex')",
		textPayload: "payload::text",
		hang: []string{
			"CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN NEW; END'",
			"CREATE TRIGGER hang BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION hang()",
		},
		deadlock: []string{
			"CREATE SEQUENCE victims", `CREATE FUNCTION deadlock() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
	IF NEW.total = 13 AND nextval(''victims'') % 2 = 1 THEN RAISE EXCEPTION USING ERRCODE = ''40P01''; END IF; RETURN NEW; END'`,
			"CREATE TRIGGER deadlock BEFORE INSERT ON purchases FOR EACH ROW EXECUTE FUNCTION deadlock()",
		},
		hanging:   "SELECT max(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep' AND pid <> $1",
		conflicts: map[string]conflict{"changed since the snapshot": {[]string{"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"}, true}},
	}
}

func (p postgres) partition(at time.Time) string {
	if at.IsZero() {
		return "cdc_relay.public_outbox_default"
	}
	return "cdc_relay.public_outbox_" + at.UTC().Format("20060102")
}

func (p postgres) ways() []way {
	all := []way{
		p.way("sql/pq", "postgres"),
		p.way("sql/pq/binary_parameters", "postgres", "binary_parameters", "yes"),
	}
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		params := []string{"default_query_exec_mode", mode}
		all = append(all, p.way("sql/pgx/"+mode, "pgx", params...), way{"pgx/" + mode, openPgx, func(database, user string) string {
			return p.DSN(database, user, params...)
		}})
	}
	return all
}

func (p postgres) way(name, driver string, params ...string) way {
	return way{name, func(tb testing.TB, dsn string, opts ...writer.Option) session {
		return openSQL(tb, writer.Postgres, driver, dsn, opts)
	}, func(database, user string) string { return p.DSN(database, user, params...) }}
}

type pgxSession struct {
	conn   *pgx.Conn
	opts   []writer.Option
	events *writer.Writer
}

func openPgx(tb testing.TB, dsn string, opts ...writer.Option) session {
	tb.Helper()
	events, err := writer.New(writer.Postgres, opts...)
	testenv.Must(tb, err)
	conn, err := pgx.Connect(tb.Context(), dsn)
	testenv.Must(tb, err)
	tb.Cleanup(func() { _ = conn.Close(context.WithoutCancel(tb.Context())) })
	return pgxSession{conn, opts, events}
}

func (s pgxSession) begin(tb testing.TB) transaction {
	tb.Helper()
	tx, err := s.conn.Begin(tb.Context())
	testenv.Must(tb, err)
	return pgxTx{tx, s.events}
}

func (s pgxSession) run(ctx context.Context, fn func(context.Context, transaction, *writer.Unit) error, o ...writer.Option) error {
	events, err := writer.New(writer.Postgres, append(o, s.opts...)...)
	if err != nil {
		return err
	}
	return writer.Run(ctx, pgxwriter.Pool(s.conn), events, func(ctx context.Context, tx pgx.Tx, u *writer.Unit) error {
		return fn(ctx, pgxTx{tx, events}, u)
	})
}

type pgxTx struct {
	pgx.Tx

	events *writer.Writer
}

func (t pgxTx) Append(ctx context.Context, events ...*writer.Event) error {
	return t.events.Append(ctx, pgxwriter.Tx(t.Tx), events...)
}

func (t pgxTx) Flush(ctx context.Context, u *writer.Unit) error {
	return t.events.Flush(ctx, pgxwriter.Tx(t.Tx), u)
}

func (t pgxTx) Exec(ctx context.Context, query string) error {
	_, err := t.Tx.Exec(ctx, query)
	return err
}

// Times and bytes are sent in a form that does not depend on session settings.
func TestPostgresSessionSettingsDoNotMatter(t *testing.T) {
	db := newDatabase(t, pg, plain("outbox"))
	for _, setting := range []string{"DateStyle = 'German, DMY'", "TimeZone = 'Asia/Kolkata'", "bytea_output = 'escape'", "IntervalStyle = 'sql_standard'"} {
		db.exec(t, "ALTER DATABASE "+db.name+" SET "+setting)
	}
	storesAwkwardEvents(t, db)
}

func TestPostgresTableNames(t *testing.T) {
	db := newDatabase(t, pg, plain("public.Out box"), plain("app.v1.outbox"), plain("app.outbox"), plain(`app.out"box`), plain(`public.x"; DROP TABLE outbox;`))
	db.exec(t, "ALTER DATABASE "+db.name+" SET search_path = app")
	storesInTables(t, db, map[string]string{
		`public.Out box`:  `public."Out box"`,
		`outbox`:          `app.outbox`,
		`app."v1.outbox"`: `app."v1.outbox"`,
		`"app".outbox`:    `app.outbox`,
		`app."out""box"`:  `app."out""box"`,
		`out"box`:         `app."out""box"`,

		`public.x"; DROP TABLE outbox;`: `public."x""; DROP TABLE outbox;"`,
	})
}

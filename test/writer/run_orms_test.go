package writer_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jmoiron/sqlx"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/mysqldialect"
	"github.com/uptrace/bun/dialect/pgdialect"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/idempotency"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	sqlcmysql "github.com/cdc-relay/cdc-relay/test/writer/sqlc/mysql"
	sqlcpostgres "github.com/cdc-relay/cdc-relay/test/writer/sqlc/postgres"
	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/gormwriter"
	"github.com/cdc-relay/cdc-relay/writer/pgxwriter"
	"github.com/cdc-relay/cdc-relay/writer/pgxwriter/pgxwritertest"
	"github.com/cdc-relay/cdc-relay/writer/writertest"
)

// shop has what an application makes at its start. T is the type of its library's transactions.
type shop[T any] struct {
	db     writer.DB[T]
	events *writer.Writer
}

func placeGORM(ctx context.Context, s shop[*gorm.DB], p Purchase) error {
	return writer.Run(ctx, s.db, s.events, func(_ context.Context, tx *gorm.DB, u *writer.Unit) error {
		u.Add(p.placed())
		return tx.Create(&p).Error
	})
}

func placePgx(ctx context.Context, s shop[pgx.Tx], p Purchase) error {
	return writer.Run(ctx, s.db, s.events, func(ctx context.Context, tx pgx.Tx, u *writer.Unit) error {
		u.Add(p.placed())
		_, err := tx.Exec(ctx, "INSERT INTO purchases (id, total) VALUES ($1, $2)", p.ID, p.Total)
		return err
	})
}

func placeSQLX(ctx context.Context, s shop[*sqlx.Tx], p Purchase) error {
	return writer.Run(ctx, s.db, s.events, func(ctx context.Context, tx *sqlx.Tx, u *writer.Unit) error {
		u.Add(p.placed())
		_, err := tx.NamedExecContext(ctx, "INSERT INTO purchases (id, total) VALUES (:id, :total)", p)
		return err
	})
}

func placeBun(ctx context.Context, s shop[bun.Tx], p Purchase) error {
	return writer.Run(ctx, s.db, s.events, func(ctx context.Context, tx bun.Tx, u *writer.Unit) error {
		u.Add(p.placed())
		_, err := tx.NewInsert().Model(&p).Exec(ctx)
		return err
	})
}

func placeSQLC(ctx context.Context, s shop[*sql.Tx], p Purchase) error {
	return writer.Run(ctx, s.db, s.events, func(ctx context.Context, tx *sql.Tx, u *writer.Unit) error {
		u.Add(p.placed())
		if s.db.Dialect() != writer.Postgres {
			return sqlcmysql.New(tx).AddPurchase(ctx, sqlcmysql.AddPurchaseParams{ID: p.ID, Total: int32(p.Total)})
		}
		return sqlcpostgres.New(tx).AddPurchase(ctx, sqlcpostgres.AddPurchaseParams{ID: p.ID, Total: int32(p.Total)})
	})
}

func TestRunWithEveryORM(t *testing.T) { onEach(t, runWithEveryORM) }

func runWithEveryORM(t *testing.T, e engine) {
	t.Helper()
	db, pool := newShop(t, e)
	db.exec(t, e.speech().deadlock...)
	d, sqlxDB, bunDB := e.dialect(), sqlx.NewDb(pool, "pgx"), bun.NewDB(pool, pgdialect.New())
	if e != engine(pg) {
		sqlxDB, bunDB = sqlx.NewDb(pool, "mysql"), bun.NewDB(pool, mysqldialect.New())
	}
	viaSQLX := writer.ORM(d, sqlxDB.BeginTxx, func(tx *sqlx.Tx) *sqlx.Tx { return tx })
	viaBun := writer.ORM(d, bunDB.BeginTx, func(tx bun.Tx) *sql.Tx { return tx.Tx })
	onORM(t, db, "sqlc", writer.SQL(pool, d), placeSQLC)
	onORM(t, db, "sqlx", viaSQLX, placeSQLX)
	onORM(t, db, "bun", viaBun, placeBun)
	for name, c := range map[string]*gorm.Config{"gorm": {}, "gorm/prepared": {PrepareStmt: true, SkipDefaultTransaction: true}} {
		onORM(t, db, name, gormwriter.DB(openGORM(t, db, pool, c), d), placeGORM)
	}
	if e == engine(pg) {
		pool, err := pgxpool.New(t.Context(), pg.DSN(db.name, ""))
		testenv.Must(t, err)
		t.Cleanup(pool.Close)
		onORM(t, db, "pgx", pgxwriter.Pool(pool), placePgx)
	}
}

// onORM places orders with one library.
func onORM[T any](t *testing.T, db *database, name string, d writer.DB[T], place func(context.Context, shop[T], Purchase) error) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		db.clear(t, "outbox", "purchases", "inbox", "idempotency_keys")
		events, err := writer.New(d.Dialect())
		testenv.Must(t, err)
		s, first := shop[T]{d, events}, Purchase{ID: "first", Total: 12}
		testenv.Must(t, place(t.Context(), s, first))
		if err := place(t.Context(), s, first); err == nil {
			t.Error("a second row with its key was stored")
		}
		testenv.Must(t, place(t.Context(), s, Purchase{ID: "victim", Total: 13}))
		placedTwiceInTheInbox(t, s)
		placedTwiceByKey(t, s)
		if rows, n := written(t, db), count(t, db, "purchases"); rows != "first Placed, victim Placed, second Placed, third Placed" || n != 2 {
			t.Errorf("events %q, %d purchases", rows, n)
		}
	})
}

// The inbox works in the library's transactions. What a handler raises is written once, and what is refused is rolled back.
func placedTwiceInTheInbox[T any](t *testing.T, s shop[T]) {
	t.Helper()
	in, err := inbox.New(s.db, "orms", inbox.WithWriter(s.events))
	testenv.Must(t, err)
	refused, ends := errors.New("refused"), ""
	for i, result := range []error{refused, nil, nil} {
		repeat, err := in.Handle(t.Context(), &inbox.Message{Source: "shop", ID: "1"}, func(_ context.Context, _ T, u *writer.Unit) error {
			u.Add(Purchase{ID: "second"}.placed())
			u.AfterCommit(func(context.Context) error { ends += "committed "; return nil })
			u.AfterRollback(func(context.Context) error { ends += "rolled back "; return nil })
			return result
		})
		if !errors.Is(err, result) || repeat != (i == 2) {
			t.Errorf("attempt %d: repeat %v, error %v", i, repeat, err)
		}
	}
	if ends != "rolled back committed " {
		t.Errorf("the transactions were %s", ends)
	}
}

// A handler of a request gets the library's transaction and a unit, whose events are written once.
func placedTwiceByKey[T any](t *testing.T, s shop[T]) {
	t.Helper()
	keys, err := idempotency.New(s.db, s.events)
	testenv.Must(t, err)
	caller := func(*http.Request) (string, error) { return "alice", nil }
	for i, status := range []int{500, 503, 201, 201} { // an error, a status that is not stored, the work, a replay
		handler := keys.Middleware(caller, func(w http.ResponseWriter, _ *http.Request, _ T, u *writer.Unit) error {
			u.Add(Purchase{ID: "third"}.placed())
			w.WriteHeader([]int{201, 503, 201, 0}[i])
			return []error{errors.New("refused"), nil, nil, nil}[i]
		})
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/purchases", nil)
		r.Header.Set(idempotency.HeaderKey, "1")
		handler.ServeHTTP(w, r)
		if w.Code != status || (w.Header().Get(idempotency.HeaderReplayed) != "") != (i == 3) {
			t.Errorf("request %d: status %d, headers %v", i, w.Code, w.Header())
		}
	}
}

// Services with these libraries are tested without a database.
func TestRecorderServesORMs(t *testing.T) {
	var recorder writertest.Recorder
	events, err := writer.New(writer.Postgres, recorder.Option())
	testenv.Must(t, err)
	pool := recorder.DB(t)
	opened, err := gorm.Open(gormpostgres.New(gormpostgres.Config{Conn: pool}))
	testenv.Must(t, err)
	for id, err := range map[string]error{
		"sqlc": placeSQLC(t.Context(), shop[*sql.Tx]{writer.SQL(pool, writer.Postgres), events}, Purchase{ID: "sqlc"}),
		"sqlx": placeSQLX(t.Context(), shop[*sqlx.Tx]{
			writer.ORM(writer.Postgres, sqlx.NewDb(pool, "pgx").BeginTxx, func(tx *sqlx.Tx) *sqlx.Tx { return tx }), events,
		}, Purchase{ID: "sqlx"}),
		"bun": placeBun(t.Context(), shop[bun.Tx]{
			writer.ORM(writer.Postgres, bun.NewDB(pool, pgdialect.New()).BeginTx, func(tx bun.Tx) *sql.Tx { return tx.Tx }), events,
		}, Purchase{ID: "bun"}),
		"gorm": placeGORM(t.Context(), shop[*gorm.DB]{gormwriter.DB(opened, writer.Postgres), events}, Purchase{ID: "gorm"}),
		"pgx":  placePgx(t.Context(), shop[pgx.Tx]{pgxwritertest.DB(&recorder), events}, Purchase{ID: "pgx"}),
	} {
		testenv.Must(t, err)
		writertest.RequireAppended(t, events, &recorder, writertest.Match{Type: "Placed", AggregateID: id})
	}
}

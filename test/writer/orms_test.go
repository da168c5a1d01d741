package writer_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jmoiron/sqlx"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/mysqldialect"
	"github.com/uptrace/bun/dialect/pgdialect"
	gormmysql "gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"

	sqlcmysql "github.com/cdc-relay/cdc-relay/test/writer/sqlc/mysql"
	sqlcpostgres "github.com/cdc-relay/cdc-relay/test/writer/sqlc/postgres"
	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/gormwriter"
	"github.com/cdc-relay/cdc-relay/writer/pgxwriter"
)

// Purchase is a row of purchases and the payload of its event.
type Purchase struct {
	ID    string `json:"id"`
	Total int    `json:"total"`
}

func (p Purchase) placed() *writer.Event {
	event, err := writer.JSON("Purchase", p.ID, "Placed", p)
	if err != nil {
		panic(err)
	}
	return event
}

// store is a way to write purchases.
type store interface {
	// within runs fn in a transaction; if s is in one, in a savepoint of it.
	within(ctx context.Context, fn func(s store) error) error
	place(ctx context.Context, p Purchase) error
}

type gormStore struct {
	db     *gorm.DB
	events *writer.Writer
}

func (s gormStore) within(ctx context.Context, fn func(s store) error) error {
	return s.db.WithContext(ctx).Transaction(func(db *gorm.DB) error { return fn(gormStore{db, s.events}) })
}

func (s gormStore) place(ctx context.Context, p Purchase) error {
	return s.db.WithContext(ctx).Transaction(func(db *gorm.DB) error {
		if err := db.Create(&p).Error; err != nil {
			return err
		}
		tx, err := gormwriter.Tx(db)
		if err != nil {
			return err
		}
		return s.events.Append(ctx, tx, p.placed())
	})
}

type bunStore struct {
	db     bun.IDB
	events *writer.Writer
}

func (s bunStore) within(ctx context.Context, fn func(s store) error) error {
	return s.db.RunInTx(ctx, nil, func(_ context.Context, tx bun.Tx) error { return fn(bunStore{tx, s.events}) })
}

func (s bunStore) place(ctx context.Context, p Purchase) error {
	return s.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(&p).Exec(ctx); err != nil {
			return err
		}
		return s.events.Append(ctx, tx.Tx, p.placed()) // tx.Tx: bun's own does not pass arguments on
	})
}

type sqlxStore struct {
	db     *sqlx.DB
	events *writer.Writer
	tx     *sqlx.Tx
}

func (s sqlxStore) within(ctx context.Context, fn func(s store) error) error {
	if s.tx != nil {
		return savepoint(ctx, s.tx, func() error { return fn(s) })
	}
	tx, err := s.db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // without effect once committed
	if err := fn(sqlxStore{s.db, s.events, tx}); err != nil {
		return err
	}
	return tx.Commit()
}

// savepoint runs fn in a savepoint.
func savepoint(ctx context.Context, tx writer.Tx, fn func() error) error {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT s"); err != nil {
		return err
	}
	if err := fn(); err != nil {
		_, undo := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT s")
		return errors.Join(err, undo)
	}
	return nil
}

func (s sqlxStore) place(ctx context.Context, p Purchase) error {
	if _, err := s.tx.NamedExecContext(ctx, "INSERT INTO purchases (id, total) VALUES (:id, :total)", p); err != nil {
		return err
	}
	return s.events.Append(ctx, s.tx, p.placed())
}

type sqlcStore struct {
	db     *sql.DB
	events *writer.Writer
	tx     *sql.Tx
	mysql  bool
}

func (s sqlcStore) within(ctx context.Context, fn func(s store) error) error {
	if s.tx != nil {
		return savepoint(ctx, s.tx, func() error { return fn(s) })
	}
	return writer.Run(ctx, writer.SQL(s.db, s.events.Dialect()), s.events, func(_ context.Context, tx *sql.Tx, _ *writer.Unit) error {
		return fn(sqlcStore{s.db, s.events, tx, s.mysql})
	})
}

func (s sqlcStore) place(ctx context.Context, p Purchase) error {
	if s.mysql {
		return s.placeMySQL(ctx, p)
	}
	queries := sqlcpostgres.New(s.db).WithTx(s.tx)
	if err := queries.AddPurchase(ctx, sqlcpostgres.AddPurchaseParams{ID: p.ID, Total: int32(p.Total)}); err != nil {
		return err
	}
	return s.events.Append(ctx, s.tx, p.placed())
}

func (s sqlcStore) placeMySQL(ctx context.Context, p Purchase) error {
	queries := sqlcmysql.New(s.db).WithTx(s.tx)
	if err := queries.AddPurchase(ctx, sqlcmysql.AddPurchaseParams{ID: p.ID, Total: int32(p.Total)}); err != nil {
		return err
	}
	return s.events.Append(ctx, s.tx, p.placed())
}

type pgxStore struct {
	db interface {
		Begin(ctx context.Context) (pgx.Tx, error)
	}
	events *writer.Writer
}

func (s pgxStore) within(ctx context.Context, fn func(s store) error) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error { return fn(pgxStore{tx, s.events}) })
}

func (s pgxStore) place(ctx context.Context, p Purchase) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO purchases (id, total) VALUES ($1, $2)", p.ID, p.Total); err != nil {
			return err
		}
		return s.events.Append(ctx, pgxwriter.Tx(tx), p.placed())
	})
}

// stores returns one for each library.
func stores(t *testing.T, db *database) map[string]store {
	t.Helper()
	pool, err := db.look(db.name)
	must(t, err)
	t.Cleanup(func() { _ = pool.Close() })
	dialect, driver := writer.Postgres, "pgx"
	bunDB := bun.NewDB(pool, pgdialect.New())
	if m, ok := db.engine.(mysql); ok {
		dialect, driver, bunDB = m.dialect(), "mysql", bun.NewDB(pool, mysqldialect.New())
	}
	events, err := writer.New(dialect)
	must(t, err)
	all := map[string]store{
		"gorm":          gormStore{openGORM(t, db, pool, &gorm.Config{}), events},
		"gorm/prepared": gormStore{openGORM(t, db, pool, &gorm.Config{PrepareStmt: true, SkipDefaultTransaction: true}), events},
		"bun":           bunStore{bunDB, events},
		"sqlx":          sqlxStore{sqlx.NewDb(pool, driver), events, nil},
		"sqlc":          sqlcStore{pool, events, nil, driver == "mysql"},
	}
	if db.engine == engine(pg) {
		pool, err := pgxpool.New(t.Context(), pg.DSN(db.name, ""))
		must(t, err)
		t.Cleanup(pool.Close)
		all["pgx"] = pgxStore{pool, events}
	}
	return all
}

func openGORM(t *testing.T, db *database, pool *sql.DB, config *gorm.Config) *gorm.DB {
	t.Helper()
	dialector := gormpostgres.New(gormpostgres.Config{Conn: pool})
	if db.engine != engine(pg) {
		dialector = gormmysql.New(gormmysql.Config{Conn: pool})
	}
	opened, err := gorm.Open(dialector, config)
	must(t, err)
	return opened
}

func TestORMs(t *testing.T) { onEach(t, orms) }

// What is rolled back, also to a savepoint, leaves neither a row nor an event.
func orms(t *testing.T, e engine) {
	t.Helper()
	db := newDatabase(t, e, plain("outbox"))
	db.exec(t, "CREATE TABLE purchases (id varchar(10) PRIMARY KEY, total int NOT NULL)")
	refused := errors.New("refused")
	for name, s := range stores(t, db) {
		t.Run(name, func(t *testing.T) {
			db.clear(t, "outbox", "purchases")
			place := func(s store, id string, result error) error {
				return errors.Join(s.place(t.Context(), Purchase{ID: id, Total: 12}), result)
			}
			must(t, s.within(t.Context(), func(s store) error {
				err := place(s, "first", nil)
				undone := s.within(t.Context(), func(s store) error { return place(s, "undone", refused) })
				if !errors.Is(undone, refused) {
					t.Errorf("error %v", undone)
				}
				return place(s, "second", err)
			}))
			if err := s.within(t.Context(), func(s store) error { return place(s, "none", refused) }); !errors.Is(err, refused) {
				t.Errorf("error %v", err)
			}
			if rows, n := written(t, db), count(t, db, "purchases"); rows != "first Placed, second Placed" || n != 2 {
				t.Errorf("events %q, %d purchases", rows, n)
			}
		})
	}
}

// Hooked is a model whose hook appends.
type Hooked struct {
	ID    string
	Total int

	events *writer.Writer
}

func (h *Hooked) TableName() string { return "purchases" }

func (h *Hooked) AfterCreate(db *gorm.DB) error {
	tx, err := gormwriter.Tx(db)
	if err != nil {
		return err
	}
	return h.events.Append(db.Statement.Context, tx, Purchase{ID: h.ID}.placed())
}

func TestGORMWithoutATransaction(t *testing.T) { onEach(t, gormWithoutATransaction) }

func gormWithoutATransaction(t *testing.T, e engine) {
	t.Helper()
	db := newDatabase(t, e, plain("outbox"))
	db.exec(t, "CREATE TABLE purchases (id varchar(10) PRIMARY KEY, total int NOT NULL)")
	pool, err := db.look(db.name)
	must(t, err)
	t.Cleanup(func() { _ = pool.Close() })
	for _, prepared := range []bool{false, true} {
		opened := openGORM(t, db, pool, &gorm.Config{PrepareStmt: prepared})
		events := stores(t, db)["gorm"].(gormStore).events
		require := func(db *gorm.DB, want error) {
			t.Helper()
			if tx, err := gormwriter.Tx(db); tx != nil || !errors.Is(err, want) {
				t.Errorf("transaction %v, error %v, want %v", tx, err, want)
			}
		}
		require(nil, writer.ErrNoTransaction)
		require(opened, writer.ErrNoTransaction)
		require(opened.Session(&gorm.Session{SkipDefaultTransaction: true}).WithContext(t.Context()), writer.ErrNoTransaction)
		tx := opened.Begin()
		if _, err := gormwriter.Tx(tx.Session(&gorm.Session{DryRun: true})); err == nil {
			t.Error("a dry run has a transaction")
		}
		require(tx.Where("id = ?", "x").First(&Hooked{}), gorm.ErrRecordNotFound)
		must(t, tx.Rollback().Error)
		db.clear(t, "outbox", "purchases")
		must(t, opened.Create(&Hooked{ID: "1", events: events}).Error)
		err := opened.Session(&gorm.Session{SkipDefaultTransaction: true}).Create(&Hooked{ID: "2", events: events}).Error
		if !errors.Is(err, writer.ErrNoTransaction) {
			t.Errorf("a hook without a transaction: error %v", err)
		}
		if rows := written(t, db); rows != "1 Placed" {
			t.Errorf("events %q", rows)
		}
	}
}

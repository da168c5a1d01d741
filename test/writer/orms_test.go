package writer_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	gormmysql "gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/gormwriter"
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

// newShop creates a database with purchases, an inbox and idempotency keys, and opens the connections of an application.
func newShop(t *testing.T, e engine) (*database, *sql.DB) {
	t.Helper()
	db := newDatabase(t, e, plain("outbox"))
	db.exec(t, "CREATE TABLE purchases (id varchar(10) PRIMARY KEY, total int NOT NULL)")
	for _, s := range append(outbox.InboxTables(e != engine(pg)).Up, outbox.IdempotencyTable(e != engine(pg)).Up...) {
		db.exec(t, s.SQL)
	}
	pool, err := db.look(db.name)
	testenv.Must(t, err)
	t.Cleanup(func() { _ = pool.Close() })
	return db, pool
}

func openGORM(t *testing.T, db *database, pool *sql.DB, config *gorm.Config) *gorm.DB {
	t.Helper()
	dialector := gormpostgres.New(gormpostgres.Config{Conn: pool})
	if db.engine != engine(pg) {
		dialector = gormmysql.New(gormmysql.Config{Conn: pool})
	}
	opened, err := gorm.Open(dialector, config)
	testenv.Must(t, err)
	return opened
}

// A nested transaction of GORM is a savepoint. What is rolled back to it leaves neither a row nor an event.
func nestedGORM(t *testing.T, db *database, opened *gorm.DB, events *writer.Writer) {
	t.Helper()
	refused := errors.New("refused")
	testenv.Must(t, writer.Run(t.Context(), gormwriter.DB(opened, events.Dialect()), events, func(ctx context.Context, tx *gorm.DB, u *writer.Unit) error {
		place := func(tx *gorm.DB, id string, result error) error {
			u.Add(Purchase{ID: id}.placed())
			flushed, err := gormwriter.Tx(tx)
			return errors.Join(tx.Create(&Purchase{ID: id}).Error, err, events.Flush(ctx, flushed, u), result)
		}
		testenv.Must(t, place(tx, "first", nil))
		undone := u.Savepoint(func() error {
			return tx.Transaction(func(tx *gorm.DB) error { return place(tx, "undone", refused) })
		})
		if !errors.Is(undone, refused) {
			t.Errorf("error %v", undone)
		}
		return place(tx, "second", nil)
	}))
	if rows, n := written(t, db), count(t, db, "purchases"); rows != "first Placed, second Placed" || n != 2 {
		t.Errorf("events %q, %d purchases", rows, n)
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

func TestTransactionsOfGORM(t *testing.T) { onEach(t, transactionsOfGORM) }

// Without a transaction, Tx is an error.
func transactionsOfGORM(t *testing.T, e engine) {
	t.Helper()
	db, pool := newShop(t, e)
	for _, prepared := range []bool{false, true} {
		opened := openGORM(t, db, pool, &gorm.Config{PrepareStmt: prepared})
		events, err := writer.New(e.dialect())
		testenv.Must(t, err)
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
		testenv.Must(t, tx.Rollback().Error)
		db.clear(t, "outbox", "purchases")
		testenv.Must(t, opened.Create(&Hooked{ID: "1", events: events}).Error)
		err = opened.Session(&gorm.Session{SkipDefaultTransaction: true}).Create(&Hooked{ID: "2", events: events}).Error
		if !errors.Is(err, writer.ErrNoTransaction) {
			t.Errorf("a hook without a transaction: error %v", err)
		}
		if rows := written(t, db); rows != "1 Placed" {
			t.Errorf("events %q", rows)
		}
		db.clear(t, "outbox", "purchases")
		nestedGORM(t, db, opened, events)
	}
}

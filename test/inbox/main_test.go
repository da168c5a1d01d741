// Package inbox_test tests the inbox and idempotency keys on real servers with every supported driver.
package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "github.com/lib/pq"              // the driver "postgres"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/idempotency"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/pgxwriter"
)

// server is a database server of all tests.
type server struct {
	name    string
	dialect writer.Dialect
	pg      *testenv.PostgresServer
	my      *testenv.MySQLServer
}

// kafka soon notices a dead consumer.
var kafka *testenv.KafkaCluster

var servers = []*server{{name: "PostgreSQL", dialect: writer.Postgres}, {name: "MySQL", dialect: writer.MySQL}, {name: "MariaDB", dialect: writer.MariaDB}}

func TestMain(m *testing.M) {
	if os.Getenv(childTopic) == "" {
		os.Exit(testenv.Main(m, startServers, stopServers))
	}
	if err := consume(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func startServers(ctx context.Context, _ string) error {
	var starts errgroup.Group
	starts.Go(func() (err error) {
		kafka, err = testenv.StartKafka(ctx, testenv.KafkaOptions{Settings: map[string]string{
			"group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1",
		}})
		return err
	})
	for _, s := range servers {
		starts.Go(func() (err error) {
			switch s.dialect {
			case writer.MySQL:
				s.my, err = testenv.StartMySQL(ctx, testenv.MySQLOptions{})
			case writer.MariaDB:
				s.my, err = testenv.StartMySQL(ctx, testenv.MySQLOptions{Flavor: testenv.MariaDBFlavor})
			default:
				s.pg, err = testenv.StartPostgres(ctx, testenv.PostgresOptions{Settings: map[string]string{"max_connections": "300"}})
			}
			return err
		})
	}
	return starts.Wait()
}

func stopServers() error {
	err := kafka.Close()
	for _, s := range servers {
		if s.pg != nil {
			err = errors.Join(err, s.pg.Close())
		} else {
			err = errors.Join(err, s.my.Close())
		}
	}
	return err
}

// onEach runs a test on all databases in parallel, each in a database of its own with the consumer's tables.
func onEach(t *testing.T, test func(t *testing.T, db *database)) {
	t.Helper()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			test(t, newDatabase(t, s))
		})
	}
}

// onEachWay does so with every driver, one after the other.
func onEachWay(t *testing.T, test func(t *testing.T, db *database, w way)) {
	t.Helper()
	onEach(t, func(t *testing.T, db *database) {
		for _, w := range db.ways() {
			t.Run(w.name, func(t *testing.T) { test(t, db, w) })
		}
	})
}

// database is a database for one test.
type database struct {
	*server

	name string
	conn *sql.DB // the test's connections
}

var databases atomic.Int64

func newDatabase(tb testing.TB, s *server) *database {
	tb.Helper()
	db := &database{server: s, name: fmt.Sprintf("inbox%d", databases.Add(1))}
	if s.pg != nil {
		testenv.Must(tb, s.pg.CreateDatabase(tb.Context(), db.name))
	} else {
		testenv.Must(tb, s.my.CreateDatabase(tb.Context(), db.name))
	}
	var err error
	db.conn, err = sql.Open(driver(s.dialect), db.dsn())
	testenv.Must(tb, err)
	tb.Cleanup(func() { _ = db.conn.Close() })
	for _, script := range []outbox.Script{outbox.InboxTables(s.my != nil), outbox.IdempotencyTable(s.my != nil)} {
		for _, statement := range script.Up {
			db.exec(tb, statement.SQL)
		}
	}
	db.exec(tb, "CREATE TABLE effects (message varchar(200) NOT NULL)", "CREATE TABLE stock (id int PRIMARY KEY, n int NOT NULL)", "INSERT INTO stock VALUES (1, 0)")
	return db
}

// driver returns the name of a driver of database/sql.
func driver(d writer.Dialect) string {
	if d == writer.Postgres {
		return "pgx"
	}
	return "mysql"
}

func (db *database) dsn() string {
	if db.pg != nil {
		return db.pg.DSN(db.name, "")
	}
	return db.my.DSN(db.name, "")
}

func (db *database) addr() string {
	if db.pg != nil {
		return db.pg.Addr()
	}
	return db.my.Addr()
}

func (db *database) exec(tb testing.TB, statements ...string) {
	tb.Helper()
	for _, s := range statements {
		if _, err := db.conn.ExecContext(tb.Context(), s); err != nil {
			tb.Fatalf("%v in\n%s", err, s)
		}
	}
}

func (db *database) count(t *testing.T, from string) (n int) {
	t.Helper()
	testenv.Must(t, db.conn.QueryRowContext(t.Context(), "SELECT count(*) FROM "+from).Scan(&n))
	return n
}

// way is a driver.
type way struct {
	name string
	open func(tb testing.TB, isolation sql.IsolationLevel) access
}

// access is a database by a driver, without the driver's type of transactions.
type access interface {
	inbox(tb testing.TB, consumer string, opts ...inbox.Option) handler
	transact(ctx context.Context, fn func(ctx context.Context, tx execer) error) error
	keys(t *testing.T, opts ...idempotency.Option) keys
}

// keys is a store of idempotency keys.
type keys interface {
	do(ctx context.Context, key string, work func(ctx context.Context, tx execer, u *writer.Unit) (*idempotency.Response, error)) (*idempotency.Response, bool, error)
	doAndCommit(ctx context.Context, key string) error
	serve(h func(w http.ResponseWriter, r *http.Request, tx execer, u *writer.Unit) error) http.Handler
	Purge(ctx context.Context, before time.Time, batch int) (int64, error)
}

// execer runs a statement in a transaction.
type execer func(ctx context.Context, query string) error

// handler is an inbox.
type handler interface {
	handle(ctx context.Context, m *inbox.Message, work func(ctx context.Context, tx execer) error) (bool, error)
	handleUnit(ctx context.Context, m *inbox.Message, work func(ctx context.Context, tx execer, u *writer.Unit) error) (bool, error)
	handleBatch(ctx context.Context, ms []*inbox.Message, work func(ctx context.Context, tx execer, u *writer.Unit, ms []*inbox.Message) error) ([]*inbox.Message, error)
	// begin returns a transaction of the caller.
	begin(t *testing.T) transaction
	Purge(ctx context.Context, before time.Time, batch int) (int64, error)
	Check(ctx context.Context) error
}

type transaction struct {
	once             func(m *inbox.Message) (bool, error)
	forget           func(ids ...inbox.MessageID) (int64, error)
	commit, rollback func() error
}

type typed[Tx any] struct{ db writer.DB[Tx] }

type typedInbox[Tx any] struct {
	*inbox.Inbox[Tx]

	db writer.DB[Tx]
}

func (a typed[Tx]) inbox(tb testing.TB, consumer string, opts ...inbox.Option) handler {
	tb.Helper()
	in, err := inbox.New(a.db, consumer, opts...)
	testenv.Must(tb, err)
	return typedInbox[Tx]{in, a.db}
}

func (a typed[Tx]) transact(ctx context.Context, fn func(context.Context, execer) error) error {
	return inbox.Transact(ctx, a.db, func(ctx context.Context, tx Tx) error { return fn(ctx, exec(a.db, tx)) })
}

type typedKeys[Tx any] struct {
	*idempotency.Store[Tx]

	db writer.DB[Tx]
}

func (a typed[Tx]) keys(t *testing.T, opts ...idempotency.Option) keys {
	t.Helper()
	events, err := writer.New(a.db.Dialect())
	testenv.Must(t, err)
	s, err := idempotency.New(a.db, events, opts...)
	testenv.Must(t, err)
	return typedKeys[Tx]{s, a.db}
}

func (k typedKeys[Tx]) do(ctx context.Context, key string, work func(context.Context, execer, *writer.Unit) (*idempotency.Response, error)) (*idempotency.Response, bool, error) {
	return k.Do(ctx, idempotency.Key{Scope: "alice", Key: key}, [32]byte{1}, func(ctx context.Context, tx Tx, u *writer.Unit) (*idempotency.Response, error) {
		return work(ctx, exec(k.db, tx), u)
	})
}

func (k typedKeys[Tx]) doAndCommit(ctx context.Context, key string) error {
	_, _, err := k.Do(ctx, idempotency.Key{Scope: "alice", Key: key}, [32]byte{1}, func(ctx context.Context, tx Tx, _ *writer.Unit) (*idempotency.Response, error) {
		return &idempotency.Response{Status: 200}, k.db.Commit(ctx, tx)
	})
	return err
}

func (k typedKeys[Tx]) serve(h func(http.ResponseWriter, *http.Request, execer, *writer.Unit) error) http.Handler {
	caller := func(r *http.Request) (string, error) {
		switch caller := r.Header.Get("Caller"); caller {
		case "nobody":
			return "", errors.New("blocked")
		case "no token":
			return "", &idempotency.UnauthorizedError{Challenge: "Bearer"}
		default:
			return caller, nil
		}
	}
	return k.Middleware(caller, func(w http.ResponseWriter, r *http.Request, tx Tx, u *writer.Unit) error {
		return h(w, r, exec(k.db, tx), u)
	})
}

func exec[Tx any](db writer.DB[Tx], tx Tx) execer {
	return func(ctx context.Context, query string) error {
		_, err := db.Exec(ctx, tx, query)
		return err
	}
}

func (in typedInbox[Tx]) handle(ctx context.Context, m *inbox.Message, work func(context.Context, execer) error) (bool, error) {
	return in.Handle(ctx, m, func(ctx context.Context, tx Tx, _ *writer.Unit) error { return work(ctx, exec(in.db, tx)) })
}

func (in typedInbox[Tx]) handleUnit(ctx context.Context, m *inbox.Message, work func(context.Context, execer, *writer.Unit) error) (bool, error) {
	return in.Handle(ctx, m, func(ctx context.Context, tx Tx, u *writer.Unit) error { return work(ctx, exec(in.db, tx), u) })
}

func (in typedInbox[Tx]) handleBatch(ctx context.Context, ms []*inbox.Message, work func(context.Context, execer, *writer.Unit, []*inbox.Message) error) ([]*inbox.Message, error) {
	return in.HandleBatch(ctx, ms, func(ctx context.Context, tx Tx, u *writer.Unit, ms []*inbox.Message) error {
		return work(ctx, exec(in.db, tx), u, ms)
	})
}

func (in typedInbox[Tx]) begin(t *testing.T) transaction {
	t.Helper()
	ctx := t.Context()
	tx, err := in.db.Begin(ctx)
	testenv.Must(t, err)
	return transaction{
		once:     func(m *inbox.Message) (bool, error) { return in.Once(ctx, tx, m) },
		forget:   func(ids ...inbox.MessageID) (int64, error) { return in.Forget(ctx, tx, ids...) },
		commit:   func() error { return in.db.Commit(ctx, tx) },
		rollback: func() error { return in.db.Rollback(ctx, tx) },
	}
}

// ways are the drivers, with the modes that change what an inbox sees.
func (db *database) ways() []way {
	if db.my != nil {
		return []way{db.sql("mysql", "mysql", db.my.DSN(db.name, "")), db.sql("clientFoundRows", "mysql", db.my.DSN(db.name, "clientFoundRows=true&interpolateParams=true"))}
	}
	return []way{
		db.sql("sql/pgx", "pgx", db.pg.DSN(db.name, "")), db.sql("sql/pq", "postgres", db.pg.DSN(db.name, "")),
		{"pgx", func(tb testing.TB, isolation sql.IsolationLevel) access {
			return db.pgx(tb, isolation, nil)
		}},
		{"pgx/simple_protocol", func(tb testing.TB, isolation sql.IsolationLevel) access {
			return db.pgx(tb, isolation, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol })
		}},
	}
}

func (db *database) sql(name, driver, dsn string) way {
	return way{name, func(tb testing.TB, isolation sql.IsolationLevel) access {
		pool, err := sql.Open(driver, dsn)
		testenv.Must(tb, err)
		tb.Cleanup(func() { _ = pool.Close() })
		pool.SetMaxIdleConns(64)
		d := writer.SQL(pool, db.dialect)
		d.TxOptions = &sql.TxOptions{Isolation: isolation}
		return typed[*sql.Tx]{d}
	}}
}

func (db *database) pgx(tb testing.TB, isolation sql.IsolationLevel, change func(*pgxpool.Config)) access {
	tb.Helper()
	config, err := pgxpool.ParseConfig(db.pg.DSN(db.name, ""))
	testenv.Must(tb, err)
	config.MaxConns = 64
	if change != nil {
		change(config)
	}
	pool, err := pgxpool.NewWithConfig(tb.Context(), config)
	testenv.Must(tb, err)
	tb.Cleanup(pool.Close)
	d := pgxwriter.Pool(pool)
	d.TxOptions.IsoLevel = map[sql.IsolationLevel]pgx.TxIsoLevel{
		sql.LevelReadCommitted: pgx.ReadCommitted, sql.LevelRepeatableRead: pgx.RepeatableRead, sql.LevelSerializable: pgx.Serializable,
	}[isolation]
	return typed[pgx.Tx]{d}
}

// message returns the message with an ID of one source.
func message(id string) *inbox.Message { return &inbox.Message{Source: "/orders", ID: id} }

// add does the work of a message: a row in effects.
func add(m *inbox.Message) func(context.Context, execer) error {
	return func(ctx context.Context, tx execer) error { return tx(ctx, "INSERT INTO effects VALUES ('"+m.ID+"')") }
}

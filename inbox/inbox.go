package inbox

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox/internal/sqltext"
	"github.com/cdc-relay/cdc-relay/writer"
)

// Inbox records which messages a consumer has handled. It holds only settings and is safe for concurrent use.
//
// The row is inserted before the work. A second consumer of the same message waits at the key until the first transaction has ended: after a
// commit the message is a repeat, after a rollback the second consumer does the work. The table is not partitioned: a unique key must hold
// the partition column, so an ID would be unique only within a day. [Inbox.Purge] deletes old rows.
type Inbox[Tx any] struct {
	db       writer.DB[Tx]
	events   *writer.Writer // of what handlers raise
	consumer string
	table    string // quoted
	source   func(*Message) string
	turn     chan struct{} // of attempts after a deadlock
}

type config struct {
	table  string
	events *writer.Writer
	source func(*Message) string
}

// Option configures an [Inbox].
type Option func(*config) error

// WithTable sets the table, by default inbox: a name, or schema.name.
func WithTable(name string) Option {
	return func(c *config) error {
		c.table = name
		return nil
	}
}

// WithSource replaces the source of messages. It keeps repeats recognizable after the relay's ce_source was changed, if
// it returns the old source for both, and gives a source to messages without one.
func WithSource(source func(*Message) string) Option {
	return func(c *config) error {
		if source == nil {
			return errors.New("the source of messages is nil: give WithSource a function")
		}
		c.source = source
		return nil
	}
}

// WithWriter sets what appends the events that handlers raise. Without it a handler that raises one fails.
func WithWriter(events *writer.Writer) Option {
	return func(c *config) error {
		if events == nil {
			return errors.New("the writer is nil: give WithWriter one of writer.New")
		}
		c.events = events
		return nil
	}
}

// errNoWriter refuses the events of an inbox without a writer.
var errNoWriter = Permanent(errors.New("the handler raised an event, and the inbox has no writer: make the inbox with WithWriter"))

// New returns the inbox of a consumer. It does not connect to the database.
//
// The consumer's name stands for the effect of its work, not for the Kafka group: if the group is renamed, nothing is
// handled twice. Two consumers with one name share their work: each message is handled by one of them.
func New[Tx any](db writer.DB[Tx], consumer string, opts ...Option) (*Inbox[Tx], error) {
	c := config{table: "inbox"}
	for _, o := range opts {
		if err := o(&c); err != nil {
			return nil, fmt.Errorf("make inbox: %w", err)
		}
	}
	if err := checkText("consumer name", consumer, MaxConsumer, "name the effect of the consumer's work"); err != nil {
		return nil, fmt.Errorf("make inbox: %w", err)
	}
	refuses, err := writer.New(db.Dialect(), writer.WithTable(c.table), // which quotes the name
		writer.WithInterceptor(func(context.Context, []*writer.Event) ([]*writer.Event, error) { return nil, errNoWriter }))
	switch {
	case err != nil:
		return nil, fmt.Errorf("make inbox: %w", err)
	case c.events == nil:
		c.events = refuses
	case c.events.Dialect() != db.Dialect():
		return nil, errors.New("make inbox: the database and the writer have different dialects: give both the same")
	}
	return &Inbox[Tx]{db: db, events: c.events, consumer: consumer, table: refuses.Table(), source: c.source, turn: make(chan struct{}, 1)}, nil
}

// DB returns the database given to New.
func (in *Inbox[Tx]) DB() writer.DB[Tx] { return in.db }

// Writer returns the writer of events that handlers raise; one that refuses all if New was not given one.
func (in *Inbox[Tx]) Writer() *writer.Writer { return in.events }

// Consumer returns the name given to New.
func (in *Inbox[Tx]) Consumer() string { return in.consumer }

// Identify returns what identifies the message in the table, with the source that [WithSource] returns. An error wraps
// [ErrInvalidMessage].
func (in *Inbox[Tx]) Identify(m *Message) (MessageID, error) { return m.identify(in.source) }

// Once records the message in the transaction and reports whether it is the first time: if so, do the work in the same
// transaction. If the work fails, roll the transaction back, or the message is lost.
//
// Once blocks while another transaction records the same message, until that one has ended. Errors for which
// [writer.Retryable] is true mean that the transaction is to be rolled back and run again; [Inbox.Handle] does so.
func (in *Inbox[Tx]) Once(ctx context.Context, tx Tx, m *Message) (first bool, err error) {
	id, err := m.identify(in.source)
	if err != nil {
		return false, err
	}
	if err := checkTx(tx); err != nil {
		return false, err
	}
	return in.insert(ctx, tx, id, newMark())
}

// checkTx refuses a transaction that is nil.
func checkTx[Tx any](tx Tx) error {
	v := reflect.ValueOf(tx)
	if !v.IsValid() || (v.Kind() == reflect.Pointer && v.IsNil()) {
		return fmt.Errorf("%w: the transaction is nil: pass the open transaction that does the work", writer.ErrNoTransaction)
	}
	return nil
}

// insert adds one row. On MySQL and MariaDB it is a plain INSERT whose error 1062 means a repeat: INSERT IGNORE would cut off
// long IDs and hide other errors, and affected rows depend on the connection's flag clientFoundRows.
func (in *Inbox[Tx]) insert(ctx context.Context, tx Tx, id MessageID, marked mark) (first bool, err error) {
	s := in.values([]MessageID{id}, marked)
	if s.Postgres() {
		s.Add(" ON CONFLICT DO NOTHING")
	}
	query, args := s.SQL()
	n, err := in.db.Exec(ctx, tx, query, args...)
	if _, number := writer.ServerError(err); number == duplicate {
		return false, nil
	}
	if err != nil {
		return false, databaseError("insert into "+in.table, in.table, err)
	}
	return n == 1, nil
}

// values begins a statement that inserts rows.
func (in *Inbox[Tx]) values(ids []MessageID, marked mark) *sqltext.Statement {
	s := in.statement("INSERT INTO ", " (consumer, source, message_id, handled_at) VALUES ")
	for i, id := range ids {
		s.Add([2]string{"(", ", ("}[min(i, 1)]).Texts(in.consumer, id.Source, id.ID).Add(", ").Add(marked.handledAt(s)).Add(")")
	}
	return s
}

// duplicate is ER_DUP_ENTRY, the error of MySQL and MariaDB for a row that exists.
const duplicate = 1062

// statement begins a statement about the table.
func (in *Inbox[Tx]) statement(before, after string) *sqltext.Statement {
	return sqltext.New(in.db.Dialect(), before).Add(in.table).Add(after)
}

// Handle records the message and calls fn in one transaction of its own. A repeat is not given to fn. If fn fails or
// panics, the transaction is rolled back and the error returned, a panic as *[PanicError].
//
// What fn adds to the unit is appended in the transaction, see [WithWriter]. Handle calls the unit's functions after the transaction, as
// [writer.Run] does, in the caller's goroutine: none if no answer to COMMIT came, or the process ended before. The unit of each attempt is
// another one, and is not to be used when fn has returned.
//
// If the database could not serialize the transaction, it is run again, and with it fn: what fn does outside of tx is done
// again. fn must return the errors of its statements: with a deadlock MySQL and MariaDB have rolled back everything, the record
// too, and commit each later statement of fn at once. In sessions with autocommit=0 they begin another transaction, which is
// rolled back. Handle notices both before it commits, by one more round trip on these databases, and returns an error that wraps
// [writer.ErrNoTransaction]. DDL, TRUNCATE and GRANT do not belong in fn: MySQL and MariaDB commit at once, with the record, and if fn fails
// afterwards, the next attempt is a repeat. Other errors that are not fn's wrap [ErrDatabase] or [ErrInvalidMessage], or
// say that another transaction has locked the record.
func (in *Inbox[Tx]) Handle(ctx context.Context, m *Message, fn func(ctx context.Context, tx Tx, u *writer.Unit) error) (repeat bool, err error) {
	id, err := m.identify(in.source)
	if err != nil {
		return false, err
	}
	err = transactUnit(ctx, in.db, in.events, in.turn, func(ctx context.Context, tx Tx, u *writer.Unit) error {
		marked := newMark()
		first, err := in.insert(ctx, tx, id, marked)
		if repeat = err == nil && !first; err != nil || repeat {
			return err
		}
		if err := fn(ctx, tx, u); err != nil {
			return err
		}
		return in.verify(ctx, tx, id, marked)
	})
	return repeat && err == nil, err
}

// Forget deletes the rows of messages in the transaction and returns how many there were. A replay of these messages is
// then handled again, after a handler was repaired. IDs are those in the table, so with the sources that [WithSource] returns.
func (in *Inbox[Tx]) Forget(ctx context.Context, tx Tx, ids ...MessageID) (n int64, err error) {
	if err := checkTx(tx); err != nil {
		return 0, err
	}
	for _, id := range ids {
		if err := id.check(); err != nil {
			return n, err
		}
		query, args := in.statement("DELETE FROM ", " WHERE consumer = ").Text(in.consumer).
			Add(" AND source = ").Text(id.Source).Add(" AND message_id = ").Text(id.ID).SQL()
		deleted, err := in.db.Exec(ctx, tx, query, args...)
		if err != nil {
			return n, databaseError("delete from "+in.table, in.table, err)
		}
		n += deleted
	}
	return n, nil
}

// Purge deletes this consumer's rows of messages that were handled before a time, in transactions of batch rows, and
// returns how many it deleted, also with an error. Keep rows for longer than the topic keeps its records, and than the
// relay could be moved back with 'position set' or 'replay': a repeat without a row is handled again.
func (in *Inbox[Tx]) Purge(ctx context.Context, before time.Time, batch int) (n int64, err error) {
	where := func(s *sqltext.Statement) {
		s.Add("consumer = ").Text(in.consumer).Add(" AND handled_at < ").Time(before)
	}
	return sqltext.Purge(in.db.Dialect(), in.table, where, "handled_at", batch, func(query string, args []any) (deleted int64, err error) {
		err = Transact(ctx, in.db, func(ctx context.Context, tx Tx) (err error) {
			if deleted, err = in.db.Exec(ctx, tx, query, args...); err != nil {
				return databaseError("delete from "+in.table, in.table, err)
			}
			return nil
		})
		return deleted, err
	})
}

// Check inserts no row into the table, so that a missing table or right, and a server that takes no writes, is an error when
// the consumer starts.
func (in *Inbox[Tx]) Check(ctx context.Context) error {
	const columns = "consumer, source, message_id, handled_at"
	return Transact(ctx, in.db, func(ctx context.Context, tx Tx) error {
		_, err := in.db.Exec(ctx, tx, "INSERT INTO "+in.table+" ("+columns+") SELECT "+columns+" FROM "+in.table+" WHERE 1 = 0")
		if err != nil {
			return databaseError("insert into "+in.table, in.table, err)
		}
		return nil
	})
}

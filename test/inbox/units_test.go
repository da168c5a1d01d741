package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

// ends notes how transactions ended.
type ends struct {
	mu  sync.Mutex
	all []string
}

// raise adds an event of the message to the unit, and functions that note the transaction's end.
func (e *ends) raise(u *writer.Unit, m *inbox.Message) {
	u.Add(raised(m))
	u.AfterCommit(e.note(m.ID + " committed"))
	u.AfterRollback(e.note(m.ID + " rolled back"))
}

func (e *ends) note(what string) func(context.Context) error {
	return func(context.Context) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.all = append(e.all, what)
		return nil
	}
}

// take returns what was noted since the last call.
func (e *ends) take() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := strings.Join(e.all, ", ")
	e.all = nil
	return all
}

func raised(m *inbox.Message) *writer.Event {
	return &writer.Event{AggregateType: "Reservation", AggregateID: m.ID, Type: "Reserved", Payload: []byte("{}")}
}

// withOutbox makes the table of events, and returns the option for inboxes that append to it.
func (db *database) withOutbox(t *testing.T) inbox.Option {
	t.Helper()
	table, name := outbox.PostgresTable, outbox.Name{Schema: "public", Table: "outbox"}
	if db.my != nil {
		table, name.Schema = outbox.MySQLTable, db.name
	}
	for _, s := range table(outbox.TableOptions{Name: name, Partition: outbox.PartitionNone}).Up {
		db.exec(t, s.SQL)
	}
	events, err := writer.New(db.dialect)
	testenv.Must(t, err)
	return inbox.WithWriter(events)
}

// What a handler raises is committed with its work, and functions are called after the transaction, with every driver. The unit of each
// attempt is another one.
func TestUnitOfAHandler(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		option := db.withOutbox(t)
		for _, w := range db.ways() {
			t.Run(w.name, func(t *testing.T) {
				in, e := w.open(t, sql.LevelDefault).inbox(t, w.name, option), new(ends)
				refused := errors.New("refused")
				for _, c := range []struct {
					results []error // of the attempts
					ends    string
					effects int
				}{{[]error{refused}, "1 rolled back", 0}, {[]error{db.conflict(), nil}, "1 rolled back, 1 committed", 1}, {[]error{nil}, "", 1}} {
					m := message("1")
					_, err := in.handleUnit(t.Context(), m, func(ctx context.Context, tx execer, u *writer.Unit) error {
						e.raise(u, m)
						result := c.results[0]
						c.results = c.results[len(c.results)-1:]
						return errors.Join(add(m)(ctx, tx), result)
					})
					if got := e.take(); !errors.Is(err, c.results[0]) || got != c.ends {
						t.Errorf("ended with %q, want %q: %v", got, c.ends, err)
					}
					if n, events := db.count(t, "effects"), db.count(t, "outbox"); n != c.effects || events != c.effects {
						cdctest.Violation(t, kindOf(n), "%d effects and %d events, want %d", n, events, c.effects)
					}
				}
				ms := []*inbox.Message{message("1"), message("2"), message("3")}
				_, err := in.handleBatch(t.Context(), ms, func(_ context.Context, _ execer, u *writer.Unit, ms []*inbox.Message) error {
					for _, m := range ms {
						e.raise(u, m)
					}
					return nil
				})
				testenv.Must(t, err)
				if got, n := e.take(), db.count(t, "outbox"); got != "2 committed, 3 committed" || n != 3 {
					t.Errorf("the batch ended with %q, %d events", got, n)
				}
				db.exec(t, "DELETE FROM effects", "DELETE FROM outbox")
			})
		}
	})
}

// What cannot be appended, or panics, fails the message. Its transaction is rolled back, and functions are told so.
func TestUnitThatFails(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		option := db.withOutbox(t)
		e := new(ends)
		elsewhere, err := writer.New(db.dialect, writer.WithTable("nowhere"))
		testenv.Must(t, err)
		for name, c := range map[string]struct {
			option    inbox.Option
			work      func(u *writer.Unit, m *inbox.Message)
			is        error
			permanent bool
			says      string
		}{
			"an event without a type": {option, func(u *writer.Unit, _ *inbox.Message) {
				u.Add(&writer.Event{AggregateType: "A", AggregateID: "1", Payload: []byte("{}")})
			}, writer.ErrInvalidEvent, true, "Type is empty"},
			"no writer": {inbox.WithTable("inbox"), func(u *writer.Unit, m *inbox.Message) { u.Add(raised(m)) }, nil, true, "make the inbox with WithWriter"},
			"no outbox": {inbox.WithWriter(elsewhere), func(u *writer.Unit, m *inbox.Message) { u.Add(raised(m)) }, inbox.ErrDatabase, false, "cdc-relay setup"},
			"a panic":   {option, func(u *writer.Unit, m *inbox.Message) { u.Add(raised(m)); panic("out of stock") }, nil, false, "out of stock"},
			"one event twice": {option, func(u *writer.Unit, m *inbox.Message) {
				event := raised(m)
				u.Add(event, event)
			}, writer.ErrInvalidEvent, true, "same Event"},
		} {
			in := db.ways()[0].open(t, sql.LevelDefault).inbox(t, "c", c.option)
			m := message("1")
			_, err := in.handleUnit(t.Context(), m, func(ctx context.Context, tx execer, u *writer.Unit) error {
				u.AfterCommit(e.note("committed"))
				u.AfterRollback(e.note("rolled back"))
				err := add(m)(ctx, tx)
				c.work(u, m)
				return err
			})
			if err == nil || (c.is != nil && !errors.Is(err, c.is)) || inbox.IsPermanent(err) != c.permanent || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", name, err)
			}
			if got, n := e.take(), db.count(t, "effects")+db.count(t, "inbox")+db.count(t, "outbox"); got != "rolled back" || n != 0 {
				t.Errorf("%s: ended with %q, %d rows", name, got, n)
			}
		}
	})
}

// conflict is an error as after a transaction that the database could not serialize.
func (db *database) conflict() error {
	if db.pg != nil {
		return postgresError("40001")
	}
	return &mysqlError{1213}
}

type postgresError string

func (e postgresError) Error() string    { return "SQLSTATE " + string(e) }
func (e postgresError) SQLState() string { return string(e) }

type mysqlError struct{ Number uint16 }

func (*mysqlError) Error() string { return "deadlock found" }

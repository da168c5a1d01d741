package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/writertest"
)

// committing is a database whose commit fails.
type committing struct {
	writer.DB[*sql.Tx]

	err error
}

func (c committing) Commit(context.Context, *sql.Tx) error { return c.err }

// serverError is an error as PostgreSQL's drivers have it.
type serverError string

func (e serverError) Error() string    { return "SQLSTATE " + string(e) }
func (e serverError) SQLState() string { return string(e) }

// After a commit whose answer is lost nobody knows what was done, so no function is called. A handler that ends its goroutine has failed,
// and so has one whose context ends, or that does not know what another transaction's commit did: COMMIT is not sent.
func TestFunctionsAfterTheTransaction(t *testing.T) {
	others := &writer.CommitUnknownError{Err: io.EOF}
	for name, c := range map[string]struct {
		commit error
		exits  bool
		want   string
	}{
		"committed":               {nil, false, "committed"},
		"deferred constraint":     {serverError("23503"), false, "rolled back"},
		"no answer":               {io.ErrUnexpectedEOF, false, ""},
		"the goroutine has ended": {nil, true, "rolled back"},
		"the context has ended":   {context.Canceled, false, "rolled back"},
		"another's commit":        {others, false, "rolled back"},
	} {
		t.Run(name, func(t *testing.T) {
			var recorder writertest.Recorder
			in, err := inbox.New(committing{writer.SQL(recorder.DB(t), writer.Postgres), c.commit}, "c")
			must(t, err)
			called, done := "", make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				defer close(done)
				_, err = in.Handle(ctx, &inbox.Message{Source: "/s", ID: "1"}, func(_ context.Context, _ *sql.Tx, u *writer.Unit) error {
					u.AfterCommit(func(context.Context) error { called += "committed"; return nil })
					u.AfterRollback(func(context.Context) error { called += "rolled back"; return nil })
					if errors.Is(c.commit, context.Canceled) {
						cancel()
					}
					if errors.Is(c.commit, others) {
						return fmt.Errorf("pay: %w", c.commit)
					}
					if c.exits {
						runtime.Goexit()
					}
					return nil
				})
			}()
			<-done
			if called != c.want || !errors.Is(err, c.commit) {
				t.Errorf("%q is called, want %q: %v", called, c.want, err)
			}
		})
	}
}

// refusing is a database whose statements fail.
type refusing committing

func (r refusing) Exec(context.Context, *sql.Tx, string, ...any) (int64, error) { return 0, r.err }

// A message whose record another transaction has locked is no reason for others to wait.
func TestLockedRecord(t *testing.T) {
	in, err := inbox.New(refusing{writer.SQL(new(writertest.Recorder).DB(t), writer.Postgres), serverError("55P03")}, "c")
	must(t, err)
	if _, err = in.Handle(t.Context(), &inbox.Message{Source: "/s", ID: "1"}, nil); !errors.Is(err, serverError("55P03")) || errors.Is(err, inbox.ErrDatabase) {
		t.Error(err)
	}
}

// A context that ends between two attempts leaves the turn of those after a deadlock to other messages.
func TestEndBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var recorder writertest.Recorder
		in, err := inbox.New(writer.SQL(recorder.DB(t), writer.Postgres), "c")
		must(t, err)
		for i := range 51 {
			begun, called := time.Now(), 0
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := in.Handle(ctx, &inbox.Message{Source: "/s", ID: "1"}, func(context.Context, *sql.Tx, *writer.Unit) error {
				if called++; called > 1 {
					return nil
				}
				if i < 50 {
					time.AfterFunc(time.Millisecond, cancel) // in the pause, or soon after it
				}
				return serverError("40P01")
			})
			if took := time.Since(begun); i == 50 && (err != nil || took > time.Second) {
				t.Errorf("handled after %v: %v", took, err)
			}
			cancel()
		}
	})
}

// A handler that is called without a unit, in a transaction of the caller's, fails in words.
func TestHandlerWithoutAUnit(t *testing.T) {
	var r inbox.Registry[tx]
	r.Default(func(_ context.Context, _ tx, u *writer.Unit, _ *inbox.Message) error {
		u.Add(&writer.Event{})
		return nil
	})
	if err := r.Handle(t.Context(), tx{}, nil, &inbox.Message{}); err == nil || !strings.Contains(err.Error(), "the unit of work is nil") {
		t.Error(err)
	}
	if err := new(writer.Writer).Flush(t.Context(), nil, nil); err == nil {
		t.Error("a unit that is nil is flushed")
	}
}

func TestWriterOfAnotherDialect(t *testing.T) {
	events, err := writer.New(writer.MySQL)
	must(t, err)
	for says, option := range map[string]inbox.Option{"different dialects": inbox.WithWriter(events), "the writer is nil": inbox.WithWriter(nil)} {
		if _, err := inbox.New(writer.SQL(new(sql.DB), writer.Postgres), "c", option); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

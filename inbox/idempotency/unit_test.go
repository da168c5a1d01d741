package idempotency_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"testing"

	"github.com/cdc-relay/cdc-relay/inbox/idempotency"
	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/writertest"
)

// committing is a database whose commit fails.
type committing struct {
	writer.DB[*sql.Tx]

	err error
}

func (c committing) Commit(context.Context, *sql.Tx) error { return c.err }

// After a commit whose answer is lost nobody knows what was done, so no function is called.
func TestHooksAfterCommit(t *testing.T) {
	for want, failure := range map[string]error{"committed": nil, "rolled back": &serverError{1290}, "": io.ErrUnexpectedEOF} {
		var recorder writertest.Recorder
		events, _ := writer.New(writer.MySQL)
		keys, err := idempotency.New(committing{writer.SQL(recorder.DB(t), writer.MySQL), failure}, events)
		if err != nil {
			t.Fatal(err)
		}
		called := ""
		_, _, err = keys.Do(t.Context(), idempotency.Key{Scope: "a", Key: "k"}, [32]byte{}, func(_ context.Context, _ *sql.Tx, u *writer.Unit) (*idempotency.Response, error) {
			u.AfterCommit(func(context.Context) error { called += "committed"; return nil })
			u.AfterRollback(func(context.Context) error { called += "rolled back"; return nil })
			return &idempotency.Response{Status: 201}, nil
		})
		if !errors.Is(err, failure) || called != want {
			t.Errorf("after %v: %q, error %v", failure, called, err)
		}
	}
}

// serverError is an error as the driver of MySQL has it.
type serverError struct{ Number uint16 }

func (*serverError) Error() string { return "the server is read-only" }

package idempotency_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox/idempotency"
	"github.com/cdc-relay/cdc-relay/writer"
)

// A request's order is placed once, however often the client sends the request. What is not a new request is answered by the
// middleware: here one without a key, before the database is asked.
func Example() {
	var pool *sql.DB // of sql.Open
	events, err := writer.New(writer.Postgres)
	if err != nil {
		panic(err)
	}
	keys, err := idempotency.New(writer.SQL(pool, writer.Postgres), events, idempotency.WithWait(time.Second))
	if err != nil {
		panic(err)
	}
	caller := func(*http.Request) (string, error) { return "alice", nil } // whom the API has authenticated
	place := keys.Middleware(caller, func(w http.ResponseWriter, r *http.Request, tx *sql.Tx, u *writer.Unit) error {
		event, err := writer.JSON("Order", "o-1", "OrderPlaced", 1)
		if err != nil {
			return err
		}
		u.Add(event)
		if _, err := tx.ExecContext(r.Context(), "INSERT INTO orders (id) VALUES ('o-1')"); err != nil {
			return err // rolls back
		}
		w.WriteHeader(http.StatusCreated)
		return nil
	})
	answer := httptest.NewRecorder()
	place.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader("{}")))
	var problem struct{ Title string }
	_ = json.Unmarshal(answer.Body.Bytes(), &problem)
	fmt.Println(answer.Code, problem.Title)
	// Output: 400 Bad Request
}

// Without HTTP, the caller says what the request is.
func ExampleStore_Do() {
	pay := func(ctx context.Context, keys *idempotency.Store[*sql.Tx], account, key string, cents int) error {
		k := idempotency.Key{Scope: account, Key: key}
		_, _, err := keys.Do(ctx, k, sha256.Sum256(fmt.Append(nil, cents)), func(ctx context.Context, tx *sql.Tx, _ *writer.Unit) (*idempotency.Response, error) {
			_, err := tx.ExecContext(ctx, "INSERT INTO payments (account, cents) VALUES ($1, $2)", account, cents)
			return &idempotency.Response{Status: http.StatusCreated}, err
		})
		return err
	}
	_ = pay
}

// An API with error bodies of its own replaces those of the middleware.
func ExampleWithErrorHandler() {
	own := idempotency.WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, err error) {
		if errors.Is(err, idempotency.ErrInProgress) {
			http.Error(w, "still working on it", http.StatusConflict)
			return
		}
		idempotency.Respond(w, err)
	})
	_ = own
}

// An error that the handler expects is an answer. On PostgreSQL the statement that failed has undone what the handler wrote.
func ExampleStore_Middleware_conflict() {
	register := func(keys *idempotency.Store[*sql.Tx], caller func(*http.Request) (string, error)) http.Handler {
		return keys.Middleware(caller, func(w http.ResponseWriter, r *http.Request, tx *sql.Tx, _ *writer.Unit) error {
			_, err := tx.ExecContext(r.Context(), "INSERT INTO users (email) VALUES ($1)", r.FormValue("email"))
			switch sqlState, _ := writer.ServerError(err); {
			case sqlState == "23505": // unique_violation; on MySQL and MariaDB the number 1062
				http.Error(w, "this address is registered", http.StatusConflict) // stored: a repeat gets it, too
			case err != nil:
				return err // rolled back; after a deadlock the handler is called again
			default:
				w.WriteHeader(http.StatusCreated)
			}
			return nil
		})
	}
	_ = register
}

// A request without credentials is answered with 401, and other errors of the caller with 403.
func ExampleUnauthorizedError() {
	caller := func(r *http.Request) (string, error) {
		name, password, ok := r.BasicAuth()
		if !ok || password != "secret" {
			return "", &idempotency.UnauthorizedError{Challenge: `Basic realm="shop"`}
		}
		return name, nil
	}
	events, err := writer.New(writer.Postgres)
	if err != nil {
		panic(err)
	}
	keys, err := idempotency.New(writer.SQL(new(sql.DB), writer.Postgres), events, idempotency.WithOptionalKey())
	if err != nil {
		panic(err)
	}
	place := keys.Middleware(caller, func(http.ResponseWriter, *http.Request, *sql.Tx, *writer.Unit) error { return nil })
	answer := httptest.NewRecorder()
	place.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/orders", nil))
	fmt.Println(answer.Code, answer.Header().Get("WWW-Authenticate"))
	// Output: 401 Basic realm="shop"
}

package main

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/cdc-relay/cdc-relay/inbox/idempotency"
	"github.com/cdc-relay/cdc-relay/writer"
)

// api serves orders over HTTP. Requests are authenticated with HTTP Basic: any customer, the shop's password.
type api struct {
	db       database
	events   *writer.Writer
	password string
	log      *slog.Logger
}

func (a *api) handler(parked http.Handler) (http.Handler, error) {
	keys, err := idempotency.New(a.db.transactions, a.events, idempotency.WithErrorHandler(a.fail))
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /orders", keys.Middleware(a.customer, a.place))  // a repeat would be another order: it needs a key
	mux.Handle("POST /orders/{id}/cancel", a.authenticated(a.cancel)) // a repeat changes nothing
	mux.Handle("GET /orders/{id}", a.authenticated(a.show))
	mux.Handle("/parked/", http.StripPrefix("/parked", a.operators(parked)))
	return mux, nil
}

// customer returns the authenticated caller, in whose scope idempotency keys are.
func (a *api) customer(r *http.Request) (string, error) {
	customer, password, ok := r.BasicAuth()
	if !ok || customer == "" || subtle.ConstantTimeCompare([]byte(password), []byte(a.password)) != 1 {
		return "", &idempotency.UnauthorizedError{Challenge: "Basic"}
	}
	return customer, nil
}

func (a *api) authenticated(h func(r *http.Request, customer string) (*order, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		customer, err := a.customer(r)
		var o *order
		if err == nil {
			o, err = h(r, customer)
		}
		if err != nil {
			a.fail(w, r, err)
			return
		}
		answer(w, http.StatusOK, o)
	})
}

// operators lets one customer list, retry and drop events that could not be handled. In your shop ask who is an operator, as here who
// is a customer: who drops an event decides that it never takes effect.
func (a *api) operators(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch customer, err := a.customer(r); {
		case err != nil:
			a.fail(w, r, err)
		case customer != "operator":
			http.Error(w, "this is for operators", http.StatusForbidden)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// place is called in a transaction that also stores the idempotency key, the response and the order's event.
func (a *api) place(w http.ResponseWriter, r *http.Request, tx *sql.Tx, u *writer.Unit) error {
	var want order
	if err := json.NewDecoder(r.Body).Decode(&want); err != nil {
		return errInvalidOrder
	}
	o, err := placeOrder(idempotency.Caller(r.Context()), want.Item, want.Quantity)
	if err != nil {
		return err
	}
	u.Track(o)
	if err := a.db.insertOrder(r.Context(), tx, o); err != nil {
		return err
	}
	answer(w, http.StatusCreated, o)
	return nil
}

// cancel has a transaction of its own. Run appends what the order raised and commits; after a deadlock it starts again.
func (a *api) cancel(r *http.Request, customer string) (o *order, err error) {
	err = writer.Run(r.Context(), a.db.transactions, a.events, func(ctx context.Context, tx *sql.Tx, u *writer.Unit) (err error) {
		if o, err = a.db.loadOrder(ctx, tx, customer, r.PathValue("id"), "FOR UPDATE"); err != nil {
			return err
		}
		u.Track(o)
		if err := o.cancel(); err != nil {
			return err
		}
		return a.db.updateStatus(ctx, tx, o)
	})
	return o, err
}

func (a *api) show(r *http.Request, customer string) (*order, error) {
	return a.db.loadOrder(r.Context(), a.db, customer, r.PathValue("id"), "")
}

func answer(w http.ResponseWriter, status int, o *order) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(o) // an error means that the client is gone
}

// fail answers with the status of an error. The text of others than the client's is only logged.
func (a *api) fail(w http.ResponseWriter, _ *http.Request, err error) {
	switch {
	case errors.Is(err, errNoOrder):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, errInvalidOrder):
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		if idempotency.Respond(w, err) >= http.StatusInternalServerError {
			a.log.Error("request failed", "error", err)
		}
	}
}

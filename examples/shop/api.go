package main

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/cdc-relay/cdc-relay/inbox"
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

func (a *api) handler() (http.Handler, error) {
	keys, err := idempotency.New(inbox.SQL(a.db.DB, a.db.dialect))
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /orders", keys.Middleware(a.customer, a.place)) // a repeat would be another order: it needs a key
	mux.HandleFunc("POST /orders/{id}/cancel", a.cancel)             // a repeat changes nothing
	mux.HandleFunc("GET /orders/{id}", a.show)
	return mux, nil
}

var errUnauthorized = errors.New("send a customer and the password with HTTP Basic")

// customer returns the authenticated caller, in whose scope idempotency keys are.
func (a *api) customer(r *http.Request) (string, error) {
	customer, password, ok := r.BasicAuth()
	if !ok || customer == "" || subtle.ConstantTimeCompare([]byte(password), []byte(a.password)) != 1 {
		return "", errUnauthorized
	}
	return customer, nil
}

// place is called in a transaction that also stores the idempotency key and the response. The middleware commits it, or
// rolls it back if the status is 500 or more.
func (a *api) place(w http.ResponseWriter, r *http.Request, tx *sql.Tx) {
	o, err := a.storeOrder(r, tx)
	a.respond(w, http.StatusCreated, o, err)
}

func (a *api) storeOrder(r *http.Request, tx *sql.Tx) (*order, error) {
	customer, err := a.customer(r)
	if err != nil {
		return nil, err
	}
	var want struct {
		Item     string `json:"item"`
		Quantity int    `json:"quantity"`
	}
	if err := json.NewDecoder(r.Body).Decode(&want); err != nil {
		return nil, errInvalidOrder
	}
	o, err := placeOrder(customer, want.Item, want.Quantity)
	if err != nil {
		return nil, err
	}
	u := a.events.NewUnit() // without hooks, which would have to wait for the middleware's commit
	u.Track(o)
	if err := a.db.insertOrder(r.Context(), tx, o); err != nil {
		return nil, err
	}
	return o, a.events.Flush(r.Context(), tx, u)
}

// cancel has a transaction of its own. Run appends what the order raised and commits; after a deadlock it starts again.
func (a *api) cancel(w http.ResponseWriter, r *http.Request) {
	var o *order
	customer, err := a.customer(r)
	if err == nil {
		err = writer.Run(r.Context(), writer.SQL(a.db, a.db.dialect), a.events, func(ctx context.Context, tx *sql.Tx, u *writer.Unit) (err error) {
			if o, err = a.db.loadOrder(ctx, tx, customer, r.PathValue("id"), "FOR UPDATE"); err != nil {
				return err
			}
			u.Track(o)
			if err := o.cancel(); err != nil {
				return err
			}
			return a.db.updateStatus(ctx, tx, o)
		})
	}
	a.respond(w, http.StatusOK, o, err)
}

func (a *api) show(w http.ResponseWriter, r *http.Request) {
	customer, err := a.customer(r)
	var o *order
	if err == nil {
		o, err = a.db.loadOrder(r.Context(), a.db, customer, r.PathValue("id"), "")
	}
	a.respond(w, http.StatusOK, o, err)
}

// respond writes an order with a status, or the status of an error.
func (a *api) respond(w http.ResponseWriter, status int, o *order, err error) {
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(o) // an error means that the client is gone
	case errors.Is(err, errUnauthorized):
		w.Header().Set("WWW-Authenticate", "Basic")
		http.Error(w, err.Error(), http.StatusUnauthorized)
	case errors.Is(err, errNoOrder):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, errInvalidOrder):
		http.Error(w, err.Error(), http.StatusBadRequest)
	default: // its text is not for clients
		a.log.Error("request failed", "error", err)
		http.Error(w, "try again", http.StatusInternalServerError)
	}
}

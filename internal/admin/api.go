package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Desk is what the page asks for on request. Without dead letters Letters and Resolve are nil. Answers are encoded as JSON and hold no payloads.
type Desk struct {
	// Letters returns one page of dead letters, those after one.
	Letters func(ctx context.Context, after string) (any, error)
	// Event says what became of an event.
	Event func(ctx context.Context, id string) (any, error)
	// Check returns what the check command finds.
	Check func(ctx context.Context) (any, error)
	// Resolve retries or drops one letter.
	Resolve func(ctx context.Context, do, letter string) error
}

// Limits of what is asked for.
const (
	askTimeout = 25 * time.Second // less than writeTimeout
	checkPause = 5 * time.Second  // after a check
	maxQuery   = 4 << 10
	maxID      = 1 << 10
)

// api answers the page.
type api struct {
	o    Options
	past *recorder
	log  *slog.Logger
}

// question is what a POST asks for.
type question func(context.Context, request) (any, error)

func (a *api) routes(mux *http.ServeMux) {
	own := http.NewCrossOriginProtection()
	handle := func(path string, h http.HandlerFunc) { mux.Handle("POST "+path, guarded(own.Handler(a.known(h)))) }
	mux.Handle("GET /api/page", guarded(http.HandlerFunc(a.page)))
	mux.Handle("GET /api/fleet", guarded(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, a.past.fleet.list()) })))
	mux.Handle("GET /api/rights", guarded(http.HandlerFunc(a.rights)))
	handle("/api/event", one(a.event, 0))
	handle("/api/check", one(func(ctx context.Context, _ request) (any, error) { return a.o.Desk.Check(ctx) }, checkPause))
	if a.o.Desk.Letters == nil {
		return
	}
	handle("/api/letters", one(func(ctx context.Context, q request) (any, error) { return a.o.Desk.Letters(ctx, q.After) }, 0))
	resolve := one(a.resolve, 0)
	if !a.o.Actions {
		resolve = func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusForbidden, cdc.Fixable("set http.actions to true", "the page is read-only"))
		}
	}
	handle("/api/resolve", resolve)
}

// rights says what the page may offer.
func (a *api) rights(w http.ResponseWriter, _ *http.Request) {
	by, err := accessOf(a.o.WebConfig)
	known := err == nil && by != (access{})
	answer(w, http.StatusOK, map[string]any{
		"details": known, "actions": known && a.o.Actions && a.o.Desk.Resolve != nil, "letters": a.o.Desk.Letters != nil,
		"reason": cdc.Explain(errNoRights()),
	})
}

// incomplete is a request that lacks something.
type incomplete struct{ error }

func (e incomplete) Unwrap() error { return e.error }

// request is the body of each POST; only JSON, which a form of another site cannot send.
type request struct {
	ID    string `json:"id"`
	After string `json:"after"`
	Do    string `json:"do"`

	client string // its address
}

func (a *api) event(ctx context.Context, q request) (any, error) {
	if q.ID == "" {
		return nil, incomplete{cdc.Fixable("give the event's ID", "no ID was given")}
	}
	return a.o.Desk.Event(ctx, q.ID)
}

func (a *api) resolve(ctx context.Context, q request) (any, error) {
	if q.ID == "" || (q.Do != "retry" && q.Do != "drop") {
		return nil, incomplete{cdc.Fixable(`send "do": "retry" or "drop" and the letter's "id"`, "the action is incomplete")}
	}
	log := a.log.With("audit", q.Do, "user", ctx.Value(asker{}), "client", q.client, "letter", q.ID)
	log.InfoContext(ctx, "dead letter: action asked for")
	err := a.o.Desk.Resolve(ctx, q.Do, q.ID)
	if err != nil {
		log.WarnContext(ctx, "dead letter: action failed", "error", err)
		return nil, err
	}
	log.InfoContext(ctx, "dead letter: action done")
	return map[string]bool{"done": true}, nil
}

// one answers one request at a time, and none for a while after it.
func one(do question, pause time.Duration) http.HandlerFunc {
	slot := make(chan struct{}, 1) // full while a request is under way
	return func(w http.ResponseWriter, r *http.Request) {
		q, err := decode(w, r)
		if err != nil {
			refuse(w, http.StatusBadRequest, err)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
		defer cancel()
		select {
		case slot <- struct{}{}:
		default:
			refuse(w, http.StatusTooManyRequests, cdc.Fixable("try again in a few seconds", "another request of this kind is under way"))
			return
		}
		defer func() {
			if pause > 0 {
				time.AfterFunc(pause, func() { <-slot })
			} else {
				<-slot
			}
		}()
		got, err := do(ctx, q)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			refuse(w, http.StatusGatewayTimeout, cdc.Fixable("use the command, which waits longer", "there was no answer within %s", askTimeout))
		case errors.As(err, new(incomplete)):
			refuse(w, http.StatusBadRequest, err)
		case err != nil:
			refuse(w, http.StatusBadGateway, err)
		default:
			answer(w, http.StatusOK, got)
		}
	}
}

func decode(w http.ResponseWriter, r *http.Request) (request, error) {
	q := request{client: r.RemoteAddr}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return q, cdc.Fixable("send it as application/json", "the request is not JSON")
	}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuery))
	if err := body.Decode(&q); err != nil {
		return q, cdc.Fixable("send one JSON object of up to 4 KiB", "the request cannot be read (%w)", err)
	}
	if len(q.ID) > maxID || len(q.After) > maxID {
		return q, cdc.Fixable("give the whole ID and nothing else", "the ID is longer than %d bytes", maxID)
	}
	return q, nil
}

func refuse(w http.ResponseWriter, code int, err error) {
	answer(w, code, map[string]string{"error": cdc.Explain(err)})
}

func answer(w http.ResponseWriter, code int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n')) // fails if the client is gone
}

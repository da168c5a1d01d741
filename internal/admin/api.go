package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Desk answers what the page asks for on request, by the name that the path has: event, check, topic, tail (what went to a topic last) and
// config, and with dead letters letters (one page of them), letter and resolve. Answers are encoded as JSON and hold no payloads.
type Desk map[string]func(context.Context, Request) (any, error)

// Summarized is an answer that is shorter in the log.
type Summarized interface{ Summary() any }

// Limits of what is asked for.
const (
	askTimeout = 25 * time.Second // less than writeTimeout
	checkPause = 5 * time.Second  // after a check
	turn       = 4 * time.Second  // how long a request waits for another one of its kind
	maxQuery   = 4 << 10
	maxID      = 1 << 10
)

// api answers the page.
type api struct {
	o    Options
	past *recorder
	log  *slog.Logger
}

func (a *api) routes(mux *http.ServeMux) {
	mux.Handle("GET /api/page", guarded(http.HandlerFunc(a.page)))
	mux.Handle("GET /api/fleet", guarded(http.HandlerFunc(a.fleet)))
	mux.Handle("GET /api/rights", guarded(http.HandlerFunc(a.rights)))
	own := http.NewCrossOriginProtection()
	handle := func(name string, h http.HandlerFunc) { mux.Handle("POST /api/"+name, guarded(own.Handler(a.known(h)))) }
	for name, do := range a.o.Desk {
		switch name {
		case "event":
			handle(name, one(a.event, 0))
		case "check":
			handle(name, one(do, checkPause))
		case "resolve":
			handle(name, a.operators(one(a.resolve, 0)))
		default:
			handle(name, one(do, 0))
		}
	}
}

func (a *api) fleet(w http.ResponseWriter, _ *http.Request) {
	st := a.past.status(time.Now())
	answer(w, http.StatusOK, a.past.fleet.list(&st))
}

// rights says what the page may offer.
func (a *api) rights(w http.ResponseWriter, r *http.Request) {
	user := a.caller(r)
	reason := a.mayNot(user)
	said := map[string]any{
		"details": user != "", "actions": reason == nil && a.o.Desk["resolve"] != nil, "letters": a.o.Desk["letters"] != nil, "user": user,
	}
	if reason != nil {
		said["reason"] = cdc.Explain(reason)
	}
	answer(w, http.StatusOK, said)
}

// ErrChanged is of an action on letters that are not what they were when somebody looked at them.
var ErrChanged = errors.New("the letters have changed")

// incomplete is a request that lacks something.
type incomplete struct{ error }

func (e incomplete) Unwrap() error { return e.error }

// Request is the body of each POST; only JSON, which a form of another site cannot send.
type Request struct {
	ID    string `json:"id"`
	Key   string `json:"key"`
	Topic string `json:"topic"`
	// Do is retry or drop: of the letter ID, or of the Count letters that a filter takes, after one and up to another.
	Do string `json:"do"`
	// Filter has what reason, topic, type, age, cause or key are; all that is set must be right.
	Filter map[string]string `json:"filter"`
	Count  int               `json:"count"`
	After  string            `json:"after"`
	// Until is the last letter that was counted.
	Until string `json:"until"`

	client string // its address
}

func (a *api) event(ctx context.Context, q Request) (any, error) {
	if (q.ID == "") == (q.Key == "") {
		return nil, incomplete{cdc.Fixable("give the event's ID or a record's key", "one of ID and key is needed")}
	}
	return a.o.Desk["event"](ctx, q)
}

func (a *api) resolve(ctx context.Context, q Request) (any, error) {
	if (q.ID == "") == (q.Filter == nil) || q.Filter != nil && (q.Count < 1 || q.Until == "") || (q.Do != "retry" && q.Do != "drop") {
		return nil, incomplete{cdc.Fixable(`send "do": "retry" or "drop", and the dead letter's "id", or a "filter" with the "count" and the "last" letter of what it takes, that as "until"`, "the action is incomplete")}
	}
	user, _ := ctx.Value(asker{}).(string)
	log := a.log.With("audit", q.Do, "user", user, "client", q.client, "letter", q.ID)
	if q.Filter != nil {
		log = log.With("count", q.Count, "filter", fmt.Sprint(q.Filter))
	}
	log.InfoContext(ctx, "dead letter: action asked for")
	result, err := a.o.Desk["resolve"](ctx, q)
	if err != nil {
		log.WarnContext(ctx, "dead letter: action failed", "error", err)
		return nil, err
	}
	short := result
	if s, ok := result.(Summarized); ok {
		short = s.Summary()
	}
	log.InfoContext(ctx, "dead letter: action done", "result", short)
	return result, nil
}

// one answers one request at a time, and none for a while after it.
func one(do func(context.Context, Request) (any, error), pause time.Duration) http.HandlerFunc {
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
		case <-time.After(turn):
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
		case errors.Is(err, ErrChanged):
			refuse(w, http.StatusConflict, err)
		case err != nil:
			refuse(w, http.StatusBadGateway, err)
		default:
			answer(w, http.StatusOK, got)
		}
	}
}

func decode(w http.ResponseWriter, r *http.Request) (Request, error) {
	q := Request{client: r.RemoteAddr}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return q, cdc.Fixable("send it as application/json", "the request is not JSON")
	}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuery))
	if err := body.Decode(&q); err != nil {
		return q, cdc.Fixable("send one JSON object of up to 4 KiB", "the request cannot be read (%w)", err)
	}
	if max(len(q.ID), len(q.After), len(q.Until), len(q.Key), len(q.Topic)) > maxID {
		return q, cdc.Fixable("give the whole one and nothing else", "an ID, key or topic is longer than %d bytes", maxID)
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

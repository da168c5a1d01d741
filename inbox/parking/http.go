package parking

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox"
)

// Handler serves the parking over HTTP, in JSON. Let only operators reach it: it drops messages, and shows them.
//
//	GET  /?type=OrderPlaced&limit=10&payload=true    messages, without key, value and headers unless payload is true
//	POST /retry {"type": "OrderPlaced"}              {"messages": 3}: so many will be handled again
//	POST /drop  {"all": true}                        {"messages": 3}: so many will never be handled
//
// A filter has the fields of [Filter] as all, topic, partition, type, aggregate_type, ids, key, before and error; GET takes topic, type
// and error. An empty one is refused by POST. Mount it with http.StripPrefix.
func (p *Parking[Tx]) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.serveList)
	mux.HandleFunc("POST /retry", func(w http.ResponseWriter, r *http.Request) { serveChange(w, r, p.Retry) })
	mux.HandleFunc("POST /drop", func(w http.ResponseWriter, r *http.Request) { serveChange(w, r, p.Drop) })
	return mux
}

// request is a filter in JSON.
type request struct {
	All           bool              `json:"all"`
	Topic         string            `json:"topic"`
	Partition     *int32            `json:"partition"`
	Type          string            `json:"type"`
	AggregateType string            `json:"aggregate_type"`
	IDs           []inbox.MessageID `json:"ids"`
	Key           *string           `json:"key"`
	Before        time.Time         `json:"before"`
	Error         string            `json:"error"`
}

// answer is a parked message in JSON.
type answer struct {
	Source        string         `json:"source"`
	ID            string         `json:"id"`
	Topic         string         `json:"topic"`
	Partition     int32          `json:"partition"`
	Offset        int64          `json:"offset"`
	Type          string         `json:"type,omitempty"`
	AggregateType string         `json:"aggregate_type,omitempty"`
	Attempts      int            `json:"attempts"`
	Error         string         `json:"error,omitempty"` // none if it waits behind another one of its key
	Retry         bool           `json:"retry,omitempty"`
	At            time.Time      `json:"parked_at"`
	Key           *string        `json:"key,omitempty"`
	Value         *string        `json:"value,omitempty"`
	Headers       []inbox.Header `json:"headers,omitempty"`
}

// listed is how many messages a list has by default, and maxListed at most: they are collected in memory.
const listed, maxListed = 100, 1000

func (p *Parking[Tx]) serveList(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, err := listed, error(nil)
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxListed {
			err = fmt.Errorf("limit is %q: give a number from 1 to %d", text, maxListed)
		}
	}
	for name := range q {
		switch name {
		case "topic", "type", "error", "limit", "payload":
		default:
			err = fmt.Errorf("%q is no parameter: use topic, type, error, limit and payload", name)
		}
	}
	if err != nil {
		reply(w, http.StatusBadRequest, err)
		return
	}
	all := []answer{}
	for row, err := range p.List(r.Context(), Filter{Topic: q.Get("topic"), Type: q.Get("type"), Error: q.Get("error")}) {
		switch {
		case row == nil:
			reply(w, http.StatusServiceUnavailable, err)
			return
		case len(all) >= limit:
			reply(w, http.StatusOK, all)
			return
		case err != nil: // it cannot be decoded
			row.Error = err.Error()
		}
		all = append(all, answered(row, q.Get("payload") == "true"))
	}
	reply(w, http.StatusOK, all)
}

func answered(row *Parked, payload bool) answer {
	m := row.Message
	a := answer{
		Source: row.ID.Source, ID: row.ID.ID, Topic: m.Topic, Partition: m.Partition, Offset: m.Offset,
		Type: m.Type, AggregateType: m.AggregateType, Attempts: m.Attempt, Error: row.Error, Retry: row.Retry, At: row.At,
	}
	if payload {
		a.Key, a.Value, a.Headers = text(m.Key), text(m.Value), m.Headers
	}
	return a
}

// text returns bytes as a string; nil is none.
func text(b []byte) *string {
	if b == nil {
		return nil
	}
	s := string(b)
	return &s
}

func serveChange(w http.ResponseWriter, r *http.Request, change func(ctx context.Context, f Filter) (int64, error)) {
	f, err := readFilter(r)
	if err != nil {
		reply(w, http.StatusBadRequest, err)
		return
	}
	n, err := change(r.Context(), f)
	if err != nil {
		reply(w, http.StatusServiceUnavailable, err)
		return
	}
	reply(w, http.StatusOK, map[string]int64{"messages": n})
}

// readFilter wants JSON also because a form on another site could send anything else.
func readFilter(r *http.Request) (f Filter, err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return f, errors.New("the filter is not JSON: send it with Content-Type: application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, 1<<20))
	var fields map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(body, &fields)
	}
	for name, value := range fields { // of a variable that was not set: it would not be a condition
		if empty := string(value); empty == "null" || empty == `""` && name != "key" {
			return f, fmt.Errorf("the filter's field %s is empty: set it, or leave it out", name)
		}
	}
	var q request
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields() // a misspelled field would not be one either
	if err == nil {
		err = d.Decode(&q)
	}
	if err != nil {
		return f, fmt.Errorf("read the filter: %w", err)
	}
	f = Filter{
		All: q.All, Topic: q.Topic, Partition: q.Partition, Type: q.Type, AggregateType: q.AggregateType, IDs: q.IDs, Before: q.Before, Error: q.Error,
	}
	if q.Key != nil {
		f.Key = []byte(*q.Key)
	}
	if reflect.ValueOf(f).IsZero() {
		return f, errors.New(`the filter is empty: set a field of it, or "all": true`)
	}
	return f, nil
}

// reply writes JSON. An error that the client is gone is nobody's.
func reply(w http.ResponseWriter, status int, v any) {
	if err, ok := v.(error); ok {
		v = map[string]string{"error": err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

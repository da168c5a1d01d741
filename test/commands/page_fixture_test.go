package commands

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/admin"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// object is a JSON object.
type object = map[string]any

// fixture serves the relay's page, with the headers of the relay, and answers its requests from testdata/page: /NAME/ is the state NAME.
type fixture struct {
	t      *testing.T
	url    string
	states map[string]object

	mu      sync.Mutex
	letters map[string][]object // of each state
	failing string              // an ID that cannot be resolved
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, states: pageStates(t), letters: map[string][]object{}}
	static := httputil.NewSingleHostReverseProxy(servedPage(t))
	mux := http.NewServeMux()
	mux.HandleFunc("/{state}/api/{what}", f.answer)
	mux.HandleFunc("/{state}/{file...}", func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/" + r.PathValue("file")
		static.ServeHTTP(w, r)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	f.url = server.URL + "/"
	return f
}

// servedPage is the address of a server with the page's files.
func servedPage(t *testing.T) *url.URL {
	t.Helper()
	s, err := admin.New(t.Context(), admin.Options{
		Listen: "127.0.0.1:0", Gatherer: prometheus.NewRegistry(), Status: func() admin.Status { return admin.Status{} },
		Ready: func() error { return nil }, Live: func() error { return nil },
	}, slog.New(slog.DiscardHandler))
	testenv.Must(t, err)
	go func() { _ = s.Run(t.Context()) }()
	return &url.URL{Scheme: "http", Host: s.Addr().String()}
}

// pageStates are the answers to /api/page in each state, as internal/admin has them, with a history that fits.
func pageStates(t *testing.T) map[string]object {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "internal", "admin", "testdata", "states.json"))
	testenv.Must(t, err)
	states := map[string]object{}
	testenv.Must(t, json.Unmarshal(text, &states))
	states["topics-300"]["topics"] = manyTopics(300)
	hostile := maps.Clone(states["redis-away"])
	hostile["source"], hostile["standbys"] = object{"database": "<b>orders</b>\u202egnp"}, []any{object{"name": "<u>x</u>", "url": "javascript:alert(1)"}}
	hostile["verdict"] = object{
		"state": "publishing_but", "level": "warn", "title": "Publishing, but <img src=x onerror=alert(1)> is not saved", "since": "2026-01-02T15:34:06Z",
		"cause": "<script>alert(1)</script>\u0007" + strings.Repeat("long ", 200_000), "fix": "</p><style>*{display:none}</style>", "command": "rm '\u202e' <i>x</i>", "effect": "javascript:alert(1)",
	}
	states["hostile"] = hostile
	for _, all := range states {
		all["history"] = pastOf(all)
	}
	return states
}

func manyTopics(n int) object {
	list := make([]any, n)
	for i := range list {
		list[i] = object{
			"name": fmt.Sprintf("tenant-%03d.orders", i), "published": 100 * (n - i), "per_second": 992.1 * float64(n-i) * 2 / float64(n*(n+1)), "p99": 0.005 + float64(i%7)/1000,
			"rejected": 0, "retried": i % 11 / 10, "last": "2026-01-02T15:36:17Z",
		}
	}
	return object{"seconds": 900, "list": list}
}

// pastOf is a history of six hours that fits the state: a wave, a takeover with a gap, and what is so now since the verdict's beginning.
func pastOf(all object) object {
	const step, count = 10, 2160
	at, _ := time.Parse(time.RFC3339, all["at"].(string))
	verdict, now := all["verdict"].(object), all["now"].(object)
	since, _ := time.Parse(time.RFC3339, verdict["since"].(string))
	samples, random := make([]any, 0, count), rand.New(rand.NewPCG(1, 2))
	for i := count - 1; i >= 0; i-- {
		moment := at.Add(-time.Duration(i) * step * time.Second)
		wave := float64(i%180) / 180
		bow := 4 * wave * (1 - wave)
		rate, lag, p99, kept := 880+160*bow+60*random.Float64(), 0.010+0.003*bow+0.003*random.Float64(), 0.008+0.003*bow+0.003*random.Float64(), 5.2e6+4e5*random.Float64()
		if last, known := now["kept_bytes"].(float64); known { // it has grown by 250 kB a second
			kept = max(kept, last-250e3*at.Sub(moment).Seconds())
		}
		row := []any{rate, lag, p99 / 3, p99, 12, kept, 0, 0}
		gone := moment.Hour() == 12 && moment.Minute() < 12 // the other relay led
		switch {
		case verdict["state"] == "standing_by" || gone:
			row = []any{nil, nil, nil, nil, nil, nil, nil, 3}
		case now["lag"] == nil && moment.After(since):
			row = []any{now["per_second"], nil, nil, nil, nil, nil, now["dead_letters"], map[string]int{"not_publishing": 2, "starting": 4, "parked": 6}[verdict["state"].(string)]}
		case i == 0:
			row = []any{now["per_second"], now["lag"], now["p50"], now["p99"], now["waiting"], now["kept_bytes"], now["dead_letters"], 0}
		case moment.Format(time.RFC3339) < all["started_at"].(string):
			row = []any{nil, nil, nil, nil, nil, nil, nil, 4}
		case moment.After(since) && verdict["state"] == "not_publishing":
			grown := moment.Sub(since).Seconds() / at.Sub(since).Seconds()
			row = []any{now["per_second"], part(now["lag"], grown), nil, nil, part(now["waiting"], grown), kept, now["dead_letters"], 2}
		case moment.After(since):
			row[6], row[7] = now["dead_letters"], map[bool]int{verdict["state"] == "publishing_but": 1}[true]
		}
		samples = append(samples, row)
	}
	return object{"seconds": step, "from": at.Add(-count * step * time.Second).Format(time.RFC3339), "samples": samples}
}

func part(value any, of float64) any {
	if n, ok := value.(float64); ok {
		return n * of
	}
	return nil
}

// request is what the page sends.
type pageRequest struct {
	After, ID, Key, Do string
	Filter             map[string]string
	Count              *int
}

func (f *fixture) answer(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	state := r.PathValue("state")
	all := f.states[state]
	if all == nil {
		panic(http.ErrAbortHandler)
	}
	var q pageRequest
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	answer, code := f.say(state, r.PathValue("what"), q)
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer)
}

func (f *fixture) say(state, what string, q pageRequest) (any, int) {
	switch what {
	case "page":
		return f.states[state], http.StatusOK
	case "rights":
		return object{"details": true, "actions": true, "letters": true, "user": "ops"}, http.StatusOK
	case "fleet":
		return f.fleet(), http.StatusOK
	case "letters":
		return f.list(state, q), http.StatusOK
	case "letter":
		for _, l := range f.of(state) {
			if l["letter"] == q.ID {
				detail := maps.Clone(l)
				maps.Copy(detail, object{"headers": object{"ce_id": l["id"], "ce_type": l["type"]}, "table": "public.outbox", "place": "0/7A00000", "behind": 2})
				return detail, http.StatusOK
			}
		}
		return object{"error": "letter " + q.ID + " was resolved meanwhile. Fix: load the list again"}, http.StatusBadGateway
	case "resolve":
		return f.resolve(state, q)
	case "event":
		return object{"id": q.ID, "timeline": []any{
			object{"what": "committed", "at": "2026-01-02T15:30:01.120Z", "text": "public.outbox"},
			object{"what": "published", "at": "2026-01-02T15:30:01.131Z", "text": "topic orders, partition 3, offset 568402"},
		}}, http.StatusOK
	case "tail":
		return object{"events": []any{object{"at": "2026-01-02T15:36:18Z", "key": "order-42", "id": "01890a5d-ac96-774b-bcce-b302099a8057"}}}, http.StatusOK
	case "check":
		return object{"ok": false, "findings": []any{
			object{"status": "ok", "subject": "postgres", "text": "wal_level is logical"},
			object{"status": "warn", "subject": "postgres", "text": "max_slot_wal_keep_size is not set", "fix": "set it, so that a stopped relay cannot fill the disk"},
		}}, http.StatusOK
	case "config":
		return object{"text": "source:\n  postgres:\n    dsn: postgres://cdc_relay:***@db-1:5432/orders\n"}, http.StatusOK
	}
	return object{"error": "unknown request " + what}, http.StatusNotFound
}

// fleet has a relay in each state that matters, in no order.
func (f *fixture) fleet() []object {
	list := []object{{"name": "ledger", "url": "http://ledger:9464/", "error": "connection refused"}}
	for i, name := range []string{"load", "kafka-away", "redis-away", "standby", "idle", "slot-near-limit"} {
		s := f.states[name]
		list = append(list, object{"name": []string{"orders", "billing", "stock", "orders", "users", "search"}[i], "url": "http://relay-" + name + ":9464/", "verdict": s["verdict"], "now": s["now"], "instance": s["instance"]})
	}
	return list
}

var letterCauses = []struct{ reason, topic, kind, cause string }{
	{"unroutable", "", "RefundIssued", "no route matches aggregate type Refund"},
	{"too_large", "orders", "OrderPlaced", "the record has 1.4 MB, the topic takes 1 MB"},
	{"malformed", "", "OrderPlaced", "the payload is no JSON: unexpected end"},
	{"unknown_topic", "refunds", "RefundDone", "topic refunds does not exist"},
	{"held", "orders", "OrderPlaced", "waits for a dead letter of its key"},
}

func (f *fixture) of(state string) []object {
	if f.letters[state] != nil {
		return f.letters[state]
	}
	n := map[string]int{"letters": 200, "letters-10000": 10_000}[state]
	list := make([]object, n)
	for i := range list {
		c := letterCauses[i%4]
		if i%11 == 10 {
			c = letterCauses[4]
		}
		list[i] = object{
			"letter": fmt.Sprintf("L%05d", i), "id": fmt.Sprintf("01890a5d-ac96-774b-bcce-%012d", i), "key": fmt.Sprintf("order-%d", i%80), "topic": c.topic, "type": c.kind,
			"reason": c.reason, "error": c.cause, "time": fmt.Sprintf("2026-01-02T15:%02d:%02dZ", 21+i%9, i%60), "attempts": 1 + i%2, "tried": "2026-01-02T15:35:00Z",
		}
	}
	f.letters[state] = list
	return list
}

func matches(l object, filter map[string]string, but string) bool {
	for field, want := range filter {
		if field == but || want == "" {
			continue
		}
		got := l[field]
		switch field {
		case "cause":
			got = l["error"]
		case "age":
			got = "1h"
		}
		if got != want {
			return false
		}
	}
	return true
}

func (f *fixture) list(state string, q pageRequest) object {
	all := f.of(state)
	facets := map[string]map[string]int{"reason": {}, "topic": {}, "type": {}, "age": {}}
	groups, found := map[string]object{}, []object{}
	for _, l := range all {
		for field := range facets {
			if matches(l, q.Filter, field) {
				facets[field][cmp.Or(fmt.Sprint(l[field]), "")]++
			}
		}
		if !matches(l, q.Filter, "") {
			continue
		}
		found = append(found, l)
		cause := l["error"].(string)
		if groups[cause] == nil {
			groups[cause] = object{"cause": cause, "reason": l["reason"], "count": 0, "keys": 15, "first": l["time"], "last": l["time"]}
		}
		groups[cause]["first"], groups[cause]["last"] = min(groups[cause]["first"].(string), l["time"].(string)), max(groups[cause]["last"].(string), l["time"].(string))
		groups[cause]["count"] = groups[cause]["count"].(int) + 1
	}
	facets["age"] = map[string]int{"1h": len(found)}
	begin := 1 + slices.IndexFunc(found, func(l object) bool { return l["letter"] == q.After })
	shown, next := found[begin:min(begin+50, len(found))], ""
	if begin+50 < len(found) {
		next = found[begin+49]["letter"].(string)
	}
	return object{"letters": shown, "total": len(found), "all": len(all), "next": next, "facets": facets, "groups": slices.SortedFunc(maps.Values(groups), func(a, b object) int {
		return cmp.Or(b["count"].(int)-a["count"].(int), strings.Compare(a["reason"].(string), b["reason"].(string)))
	})}
}

func (f *fixture) resolve(state string, q pageRequest) (any, int) {
	const atOnce = 1000
	kept, failed, matching, left := []object{}, []object{}, 0, 0
	after := q.After
	for _, l := range f.of(state) {
		switch id := l["letter"].(string); {
		case q.ID != "" && id != q.ID, q.ID == "" && (!matches(l, q.Filter, "") || id <= q.After):
			kept = append(kept, l)
			continue
		case matching == atOnce:
			kept, left = append(kept, l), left+1
			continue
		case id == f.failing:
			kept, failed = append(kept, l), append(failed, object{"id": l["id"], "error": "no route matches aggregate type Refund"})
		}
		matching++
		after = l["letter"].(string)
	}
	if q.Count != nil && *q.Count != matching+left {
		return object{"error": fmt.Sprintf("%d dead letters match now, not %d. Fix: load the list again", matching+left, *q.Count)}, http.StatusConflict
	}
	f.letters[state] = kept
	return object{"done": matching - len(failed), "failed": failed, "left": left, "after": after}, http.StatusOK
}

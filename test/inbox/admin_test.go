package inbox_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/writer"
)

// The parking over HTTP. What could choose everything by mistake is refused.
func TestParkingOverHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		p := newParked(t, writer.SQL(db.conn, db.dialect), "c")
		p.park(record("a", 1), true)
		p.follow(record("a", 2), true)
		p.park(record("b", 3), true)
		h := http.StripPrefix("/parked", p.Handler())
		for _, c := range []struct {
			method, path, body string
			status             int
			want, not          string
		}{
			{"GET", "/parked/", "", 200, `"id":"b3","topic":"orders","partition":3,"offset":3,"type":"Orderb","aggregate_type":"Order","attempts":5,"error":"out of  stock ","parked_at":"`, `"value"`},
			{"GET", "/parked/?type=Ordera&payload=true", "", 200, `"key":"a","value":`, `"b3"`},
			{"GET", "/parked/?limit=1", "", 200, `"a1"`, `"a2"`},
			{"GET", "/parked/?typ=Ordera", "", 400, `\"typ\" is no parameter`, "a1"},
			{"GET", "/parked/?limit=x", "", 400, "a number from 1 to 1000", "a1"},
			{"GET", "/parked/?topic=other", "", 200, "[]", "a1"},
			{"POST", "/parked/retry", `{}`, 400, "the filter is empty", ""},
			{"POST", "/parked/retry", `{"typ": "Ordera"}`, 400, `unknown field`, ""},
			{"POST", "/parked/drop", `{"topic": "orders", "type": ""}`, 400, "field type is empty", ""},
			{"POST", "/parked/drop", `{"topic": "orders", "ids": null}`, 400, "field ids is empty", ""},
			{"POST", "/parked/drop", `{"topic": "orders"} {"type": "Ordera"}`, 400, "read the filter", ""},
			{"POST", "/parked/retry", `type=Ordera`, 400, "read the filter", ""},
			{"POST", "/parked/retry", `{"type": "Ordera"}`, 200, `{"messages":2}`, ""},
			{"GET", "/parked/", "", 200, `"retry":true`, ""},
			{"GET", "/parked/drop", "", 405, "", ""},
			{"POST", "/parked/drop", `{"ids": []}`, 200, `{"messages":0}`, ""},
			{"POST", "/parked/drop", `{"ids": [{"source": "/orders", "id": "b3"}], "key": "b"}`, 200, `{"messages":1}`, ""},
			{"POST", "/parked/drop", `{"all": true}`, 200, `{"messages":2}`, ""},
		} {
			r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader(c.body))
			r.Header.Set("Content-Type", "application/json; charset=utf-8")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if body := w.Body.String(); w.Code != c.status || !strings.Contains(body, c.want) || (c.not != "" && strings.Contains(body, c.not)) {
				t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, w.Code, body)
			}
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/parked/drop", strings.NewReader(`{"all": true}`))
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "Content-Type: application/json") {
			t.Errorf("without a type: %d %s", w.Code, w.Body)
		}
		db.exec(t, "DROP TABLE inbox_parked")
		w = httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/parked/", nil)); w.Code != http.StatusServiceUnavailable {
			t.Errorf("without a table: %d %s", w.Code, w.Body)
		}
	})
}

package admin_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/admin"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// asked is a row of the fleet.
type asked struct {
	Name, URL, Error string
	Verdict          *admin.Verdict
}

// fleetOf waits until the relay has asked its peers.
func fleetOf(t *testing.T, base string, peers int) (list []asked) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cdctest.Patience(20*time.Second))
	defer cancel()
	err := cdctest.Await(ctx, "answers of peers", func(context.Context) (bool, error) {
		_, _, body := get(t, base+"/api/fleet") //nolint:contextcheck // it has the test's
		err := json.Unmarshal([]byte(body), &list)
		return len(list) == peers+1, err // and itself
	})
	testenv.Must(t, err)
	return list
}

// A row says what a peer says of itself, or in one sentence why it says nothing.
func TestFleet(t *testing.T) {
	answers := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
	}
	elsewhere := atomic.Bool{}
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Store(true) }))
	defer other.Close()
	of := func(level, title string) string {
		return `{"state":"leading","source":{"database":"` + level + `"},"verdict":{"state":"publishing","level":"` + level + `","title":"` + title + `"}}`
	}
	tests := []struct {
		name, says string
		handler    http.HandlerFunc
	}{
		{"bad", "Not publishing", answers(of("bad", "Not publishing"))},
		{"", "answers 302 Found", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) }},
		{"", "does not answer with a relay's status", func(w http.ResponseWriter, r *http.Request) { // a gigabyte
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		}},
		{"", "no relay answers", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}, // hangs
		{"", "user and a password", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }},
		{"old", "earlier version", answers(`{"state":"leading","source":{"database":"old"}}`)},
		{"warn", `a\u202eb`, answers(of("warn", "a\u202eb"+strings.Repeat("x", 1000)))},
		{"good", "Publishing", answers(of("good", "Publishing"))},
	}
	o := newRelay().options()
	for _, tt := range tests {
		s := httptest.NewServer(tt.handler)
		t.Cleanup(s.Close)
		o.Peers.URLs = append(o.Peers.URLs, s.URL)
	}
	list := fleetOf(t, "http://"+serve(t, o), len(tests))
	found := map[string]asked{}
	for _, p := range list {
		found[strings.TrimSuffix(p.URL, "/")] = p
	}
	for i, tt := range tests {
		p := found[o.Peers.URLs[i]]
		said := p.Error
		if p.Verdict != nil {
			said += p.Verdict.Title
		}
		if p.Name != tt.name || !strings.Contains(said, tt.says) || len(said) > 1000 {
			t.Errorf("%q: %+v says %q", tt.says, p, said)
		}
	}
	if elsewhere.Load() {
		t.Error("a redirection was followed")
	}
}

// A standby's /readyz and verdict say whether its leader publishes; peers get the configured user, and never the caller's.
func TestStandbySaysWhetherItsLeaderPublishes(t *testing.T) {
	var user atomic.Value
	leading, standby := newRelay().options(), newRelay().options()
	leading.Status = func() admin.Status {
		st := example()
		st.Group, st.Problems, st.Stalled = "orders", nil, false
		return st
	}
	base := "http://" + serve(t, leading)
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, _ := r.BasicAuth()
		user.Store(name + ":" + password)
		_, _, body := get(t, base+"/status") //nolint:contextcheck // it has the test's
		_, _ = w.Write([]byte(body))
	}))
	defer between.Close()
	standby.Status = func() admin.Status {
		return admin.Status{State: "standby", Group: "orders", Leader: "PID 7", Source: admin.Source{Database: "orders"}}
	}
	own := "http://" + serve(t, standby)
	if _, _, body := get(t, own+"/readyz"); !strings.HasPrefix(body, "ok\nStanding by: whether the leader publishes is not known: PID 7") {
		t.Error(body)
	}
	standby.Peers = admin.Peers{URLs: []string{between.URL}, User: "viewer", Password: func(context.Context) (string, error) { return "secret", nil }}
	own = "http://" + serve(t, standby)
	fleetOf(t, own, 1)
	asked := send(t, http.DefaultClient, http.MethodGet, own+"/readyz", "", map[string]string{"Authorization": "Basic b3BzOm93bg=="})
	if !strings.HasPrefix(asked.body, "ok\nStanding by for ") || !strings.Contains(asked.body, ", which publishes\n") {
		t.Error(asked.body)
	}
	if user.Load() != "viewer:secret" {
		t.Errorf("the peer was asked by %v", user.Load())
	}
	_, _, body := get(t, own+"/api/page")
	if !strings.Contains(body, `"leader":{"name":`) || !strings.Contains(body, `"publishing":true`) || strings.Contains(body, `"now":{"lag"`) {
		t.Error(body)
	}
}

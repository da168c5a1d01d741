package commands

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// pageUser lets in ops with the password "secret".
const pageUser = "basic_auth_users: {ops: \"$2a$04$Jhh.FUrdvG9t1uOtLT8RgeJd68wA2QxGtz7OgVVhNK2jbGRsxcksa\"}\n"

// The page's requests list, find and drop a dead letter, as the commands do, and check; none shows a payload.
func TestPageResolvesLetters(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.config += "errors: {unroutable: dead_letter}\n"
	s.setup()
	s.pageFor(t)
	relay := s.start()
	base := strings.Replace(relay.leading(), "http://", "http://ops:secret@", 1)
	s.event(1, "a", "no topic, this")
	relay.await(`msg="event became a dead letter"`)
	s.event(2, "a", "no topic, this")
	s.event(3, "b", "no topic, this")
	var letters string
	cdctest.Eventually(t, patience, "three letters", func() bool {
		letters = s.asks(base, "letters", `{}`)
		return strings.Contains(letters, `"total":3`)
	})
	letter, _, _ := strings.Cut(strings.SplitN(letters, `"letter":"`, 2)[1], `"`)
	until, _, _ := strings.Cut(strings.SplitN(letters, `"last":"`, 2)[1], `"`)
	for _, ask := range []struct{ path, body, says string }{
		{"letters", `{}`, `"total":3`},
		{"letters", `{"filter":{"reason":"unroutable","age":"1h"}}`, `"total":3`},
		{"letters", `{"filter":{"key":"none"}}`, `"total":0,"all":3`},
		{"letters", `{"filter":{"reason":"held"}}`, `"total":0,"all":3`},
		{"letters", `{}`, `(aggregate) has a bad topic name`},
		{"letter", `{"id":"` + letter + `"}`, `"behind":1`},
		{"event", `{"key":"a"}`, `"what":"dead_letter"`},
		{"event", `{"id":"` + eventID(1) + `"}`, `"what":"committed"`},
		{"config", `{}`, "dead_letter"},
		{"tail", `{"topic":"none"}`, `"events":[]`},
		{"event", `{"id":"` + eventID(1) + `"}`, `"reason":"unroutable"`},
		{"check", `{}`, `"ok":true`},
		{"resolve", `{"do":"retry","id":"` + letter + `"}`, `"failed":[{"id":"` + letter + `","error":"unroutable: `},
		{"resolve", `{"do":"drop","filter":{"reason":"unroutable"},"count":2,"until":"` + until + `"}`, "the filter takes 3 dead letters now, not 2"},
		{"resolve", `{"do":"drop","id":"` + letter + `"}`, `"done":1`},
		{"resolve", `{"do":"drop","id":"` + letter + `"}`, "was resolved meanwhile"},
		{"resolve", `{"do":"drop","filter":{},"count":2,"until":"` + until + `"}`, `"done":2,"failed":[]`},
		{"letters", `{}`, `"total":0`},
	} {
		if got := s.asks(base, ask.path, ask.body); !strings.Contains(got, ask.says) || strings.Contains(got, "payload\":") {
			t.Errorf("%s %s: %s", ask.path, ask.body, got)
		}
	}
	relay.await(`audit=drop user=ops`)
}

// pageFor lets [pageUser] see and do everything.
func (s *site) pageFor(t *testing.T) {
	t.Helper()
	path := filepath.Join(s.dir, "web.yaml")
	testenv.Must(t, os.WriteFile(path, []byte(pageUser), 0o600))
	s.replace(`http: {listen: "127.0.0.1:0"}`, `http: {listen: "127.0.0.1:0", health_listen: "127.0.0.1:0", web_config: `+path+`, actions: true}`)
}

// asks sends one of the page's requests.
func (s *site) asks(base, path, body string) string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, base+"/api/"+path, strings.NewReader(body))
	testenv.Must(s.t, err)
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	testenv.Must(s.t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	testenv.Must(s.t, err)
	return string(text)
}

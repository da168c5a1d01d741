package admin_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/admin"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// hostile is text that a page would run if it took it for HTML.
const hostile = `<img src=x onerror=alert(1)>`

func TestPageHasStrictHeaders(t *testing.T) {
	base := "http://" + serve(t, newRelay().options())
	files, err := filepath.Glob("page/*")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	paths := []string{"/", "/api/page", "/api/rights", "/status"}
	for _, file := range files {
		if name := filepath.Base(file); name != "index.html" { // it is /
			paths = append(paths, "/"+name)
		}
	}
	for _, path := range paths {
		r := send(t, http.DefaultClient, http.MethodGet, base+path, "", nil)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
			"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "no-referrer",
		} {
			if r.code != http.StatusOK || r.header.Get(name) != want {
				t.Errorf("%s: %d, %s is %q", path, r.code, name, r.header.Get(name))
			}
		}
		if strings.Contains(r.body, " style=") || strings.Contains(r.body, "<script>") {
			t.Errorf("%s has an inline style or script", path)
		}
		if path != "/preact.js" && strings.Contains(r.body, "nnerHTML") {
			t.Errorf("%s makes HTML of text", path)
		}
	}
}

func TestDetailsNeedAuthentication(t *testing.T) {
	o := newRelay().options()
	o.Desk = deskOf(new(atomic.Int64))
	base := "http://" + serve(t, o)
	for _, path := range []string{"letters", "letter", "event", "check", "resolve", "tail", "config"} {
		r := send(t, http.DefaultClient, http.MethodPost, base+"/api/"+path, `{"id":"a","do":"drop"}`, nil)
		if r.code != http.StatusForbidden || !strings.Contains(r.body, "set http.web_config") {
			t.Errorf("%s: %d %s", path, r.code, r.body)
		}
	}
}

func TestActionsNeedAuthentication(t *testing.T) {
	o := newRelay().options()
	o.Actions = true
	_, err := admin.New(t.Context(), o, slog.New(slog.DiscardHandler))
	var stop *cdc.StopError
	if !errors.As(err, &stop) || stop.Reason != "http_actions" || !strings.Contains(cdc.Explain(err), "basic_auth_users") {
		t.Errorf("%v", err)
	}
}

func TestActions(t *testing.T) {
	path, trusted := webConfig(t)
	json := map[string]string{"Content-Type": "application/json"}
	tests := []struct {
		name     string
		readOnly bool
		user     string
		body     string
		header   map[string]string
		want     int
		done     int64
	}{
		{"drop", false, "ops:secret", `{"do":"drop","id":"a"}`, json, http.StatusOK, 1},
		{"read-only", true, "ops:secret", `{"do":"drop","id":"a"}`, json, http.StatusForbidden, 0},
		{"wrong password", false, "ops:wrong", `{"do":"drop","id":"a"}`, json, http.StatusUnauthorized, 0},
		{"a form", false, "ops:secret", `{"do":"drop","id":"a"}`, map[string]string{"Content-Type": "text/plain"}, http.StatusBadRequest, 0},
		{"another site", false, "ops:secret", `{"do":"drop","id":"a"}`, map[string]string{"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"}, http.StatusForbidden, 0},
		{"another origin", false, "ops:secret", `{"do":"drop","id":"a"}`, map[string]string{"Content-Type": "application/json", "Origin": "https://rebound.example"}, http.StatusForbidden, 0},
		{"letters of a filter", false, "ops:secret", `{"do":"retry","filter":{"reason":"held"},"count":12,"until":"1-2-3"}`, json, http.StatusOK, 1},
		{"letters that have changed", false, "ops:secret", `{"do":"drop","filter":{},"count":13,"until":"1-2-3"}`, json, http.StatusConflict, 0},
		{"a filter without a count", false, "ops:secret", `{"do":"drop","filter":{}}`, json, http.StatusBadRequest, 0},
		{"letters that nobody counted", false, "ops:secret", `{"do":"drop","filter":{},"count":12}`, json, http.StatusBadRequest, 0},
		{"a letter and a filter", false, "ops:secret", `{"do":"drop","id":"a","filter":{},"count":12}`, json, http.StatusBadRequest, 0},
		{"unknown action", false, "ops:secret", `{"do":"explode","id":"a"}`, json, http.StatusBadRequest, 0},
		{"a large body", false, "ops:secret", `{"do":"drop","id":"` + strings.Repeat("a", 1<<20) + `"}`, json, http.StatusBadRequest, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var resolved atomic.Int64
			o := newRelay().options()
			o.WebConfig, o.Actions, o.Desk = path, !tt.readOnly, deskOf(&resolved)
			_, port, _ := strings.Cut(serve(t, o), ":")
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: trusted, DisableKeepAlives: true}}
			r := send(t, client, http.MethodPost, "https://"+tt.user+"@localhost:"+port+"/api/resolve", tt.body, tt.header)
			if r.code != tt.want || resolved.Load() != tt.done {
				t.Errorf("%d %s, %d resolved", r.code, r.body, resolved.Load())
			}
		})
	}
}

// The log has who did what: the user whose password was verified, or the subject of the certificate, whatever name is sent with it.
func TestActionIsAudited(t *testing.T) {
	path, trusted := webConfig(t)
	dir := filepath.Dir(path)
	byCertificate := filepath.Join(dir, "certificates.yaml")
	put(t, byCertificate, "tls_server_config: {cert_file: cert.pem, key_file: key.pem, client_ca_file: cert.pem, client_auth_type: RequireAndVerifyClientCert}\n")
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	testenv.Must(t, err)
	for _, tt := range []struct{ config, sent, user string }{{path, "ops:secret", "ops"}, {byCertificate, "mallory:any", "CN=localhost"}} {
		var log bytes.Buffer
		o := newRelay().options()
		o.WebConfig, o.Actions, o.Desk = tt.config, true, deskOf(new(atomic.Int64))
		s, stop, wait := startWith(t, o, slog.NewJSONHandler(&log, nil))
		_, port, _ := strings.Cut(s.Addr().String(), ":")
		with := trusted.Clone()
		with.Certificates = []tls.Certificate{cert}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: with, DisableKeepAlives: true}}
		send(t, client, http.MethodPost, "https://"+tt.sent+"@localhost:"+port+"/api/resolve", `{"do":"drop","id":"letter-1"}`, map[string]string{"Content-Type": "application/json"})
		stop()
		wait()
		if done := regexp.MustCompile(`"dead letter: action done","audit":"drop","user":"` + tt.user + `","client":"[^"]+","letter":"letter-1","result":{"done":1}`); !done.MatchString(log.String()) {
			t.Error(log.String())
		}
	}
}

// Everybody who logs in looks; operators act.
func TestOperators(t *testing.T) {
	path, trusted := webConfig(t)
	for _, tt := range []struct {
		operators []string
		actions   bool
		code      int
		says      string
	}{
		{nil, true, http.StatusOK, `"actions":true`},
		{[]string{"alice", "ops"}, true, http.StatusOK, `"actions":true`},
		{[]string{"alice"}, true, http.StatusForbidden, `"actions":false`},
		{nil, false, http.StatusForbidden, `"actions":false`},
	} {
		o := newRelay().options()
		o.WebConfig, o.Actions, o.Operators, o.Desk = path, tt.actions, tt.operators, deskOf(new(atomic.Int64))
		_, port, _ := strings.Cut(serve(t, o), ":")
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: trusted, DisableKeepAlives: true}}
		ask := func(method, path, body string) received {
			return send(t, client, method, "https://ops:secret@localhost:"+port+"/api/"+path, body, map[string]string{"Content-Type": "application/json"})
		}
		if r := ask(http.MethodGet, "rights", ""); !strings.Contains(r.body, tt.says) || !strings.Contains(r.body, `"user":"ops"`) {
			t.Errorf("%+v: %s", tt, r.body)
		}
		if r := ask(http.MethodPost, "resolve", `{"do":"drop","id":"letter-1"}`); r.code != tt.code {
			t.Errorf("%+v: %d %s", tt, r.code, r.body)
		}
		for path, want := range map[string]string{"letters": "reason", "tail": "orders", "config": "config", "event": "a"} {
			if r := ask(http.MethodPost, path, `{"topic":"orders","key":"a"}`); r.code != http.StatusOK || !strings.Contains(r.body, want) {
				t.Errorf("%s: %d %s", path, r.code, r.body)
			}
		}
	}
}

func TestContentIsNoHTML(t *testing.T) {
	path, trusted := webConfig(t)
	o := newRelay().options()
	o.WebConfig, o.Desk = path, deskOf(new(atomic.Int64))
	_, port, _ := strings.Cut(serve(t, o), ":")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trusted, DisableKeepAlives: true}}
	r := send(t, client, http.MethodPost, "https://ops:secret@localhost:"+port+"/api/letters", `{}`, map[string]string{"Content-Type": "application/json"})
	if r.code != http.StatusOK || strings.ContainsAny(r.body, "<>") || r.header.Get("Content-Type") != "application/json" {
		t.Errorf("%d %s", r.code, r.body)
	}
}

func deskOf(resolved *atomic.Int64) admin.Desk {
	say := func(of func(admin.Request) any) func(context.Context, admin.Request) (any, error) {
		return func(_ context.Context, q admin.Request) (any, error) { return of(q), nil }
	}
	return admin.Desk{
		"letters": say(func(q admin.Request) any { return map[string]string{"key": hostile, "reason": q.Filter["reason"]} }),
		"letter":  say(func(admin.Request) any { return nil }),
		"event":   say(func(q admin.Request) any { return q.ID + q.Key }),
		"check":   say(func(admin.Request) any { return nil }),
		"tail":    say(func(q admin.Request) any { return q.Topic }),
		"config":  say(func(admin.Request) any { return "config" }),
		"resolve": func(_ context.Context, q admin.Request) (any, error) {
			if q.Count == 13 {
				return nil, cdc.Fixable("load the list again", "%w: the filter takes 12 letters now, not 13", admin.ErrChanged)
			}
			resolved.Add(1)
			return map[string]int{"done": 1}, nil
		},
	}
}

type received struct {
	code   int
	header http.Header
	body   string
}

func send(t *testing.T, client *http.Client, method, url, body string, header map[string]string) received {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	testenv.Must(t, err)
	req.Close = true
	for k, v := range header {
		req.Header.Set(k, v)
	}
	r, err := client.Do(req)
	testenv.Must(t, err)
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	testenv.Must(t, err)
	return received{r.StatusCode, r.Header, string(text)}
}

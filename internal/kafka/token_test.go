package kafka_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

const secret = `%s"'& hunter2é`

func endpoint(address string) *kafka.TokenEndpoint {
	return &kafka.TokenEndpoint{
		URL: address, ClientID: "relay", Secret: func(context.Context) (string, error) { return secret, nil },
		Scopes: []string{"kafka", "orders"}, Params: map[string]string{"audience": "kafka"},
	}
}

func TestClientCredentials(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		password, _ = url.QueryUnescape(password)
		if user != "relay" || password != secret || r.FormValue("grant_type") != "client_credentials" ||
			r.FormValue("scope") != "kafka orders" || r.FormValue("audience") != "kafka" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "a.b.c", "token_type": "Bearer", "expires_in": 300})
	}))
	defer server.Close()
	got, expires, err := endpoint(server.URL).Fetch(t.Context())
	if left := time.Until(expires); got != "a.b.c" || err != nil || left < 4*time.Minute || left > 5*time.Minute {
		t.Errorf("%q %s %v", got, expires, err)
	}
}

// Each answer of an endpoint that is not a token is one line with its address and a fix, and without the secret, which some
// endpoints repeat. What may pass by itself is no stop.
func TestBadEndpoints(t *testing.T) {
	t.Parallel()
	told := make(chan string, 100)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { told <- r.Header.Get("Authorization") }))
	t.Cleanup(elsewhere.Close) // the subtests are parallel
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		says   []string
		stops  bool
	}{
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, []string{"307: Temporary Redirect", "correct kafka.sasl.oauth.token_url"}, true},
		"500": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			repeat(w, r)
		}, []string{"500: server_error"}, false},
		"500 of a proxy": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "<html>")
		}, []string{"500: Internal Server Error"}, false},
		"HTML": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>hello") }, []string{"something else than a token"}, false},
		"no token": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "{}")
		}, []string{"something else than a token"}, false},
		"404":          {http.NotFound, []string{"404: Not Found", "correct kafka.sasl.oauth.token_url"}, true},
		"wrong secret": {refuse, []string{"401: invalid_client no *** here", "client_secret"}, true},
		"endless":      {endless, []string{"something else than a token"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(tt.answer)
			defer server.Close()
			_, _, err := endpoint(server.URL).Fetch(t.Context())
			check(t, err, tt.stops, append(tt.says, server.URL)...)
		})
	}
	t.Cleanup(func() {
		if len(told) > 0 {
			t.Errorf("the secret went elsewhere: %s", <-told)
		}
	})
}

func check(t *testing.T, err error, stops bool, says ...string) {
	t.Helper()
	var stop *cdc.StopError
	have := cdc.Explain(err)
	if errors.As(err, &stop) != stops || cdc.Fix(err) == "" || strings.Contains(have, "\n") || strings.Contains(have, "hunter2") || strings.Contains(have, basic()) {
		t.Errorf("have %s (stop: %v)", have, stop != nil)
	}
	for _, word := range says {
		if !strings.Contains(have, word) {
			t.Errorf("%s does not say %s", have, word)
		}
	}
}

// basic is the start of a header with the secret.
func basic() string {
	return base64.StdEncoding.EncodeToString([]byte("relay:" + url.QueryEscape(secret)))[:20]
}

// repeat answers with what was asked.
func repeat(w io.Writer, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	text := fmt.Sprintf("%s %s %s", secret, r.Header, body)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": "server_error", "error_description": text})
}

func refuse(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnauthorized)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": "invalid_client", "error_description": "no " + secret + " here"})
}

// endless never ends its answer; a client reads no more than it needs.
func endless(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		if _, err := w.Write(make([]byte, 1<<16)); err != nil {
			return
		}
	}
}

func TestUnreachableEndpoints(t *testing.T) {
	t.Parallel()
	_, _, err := endpoint("http://127.0.0.1:1").Fetch(t.Context())
	check(t, err, false, "http://127.0.0.1:1", "cannot be reached (connection refused)", "token_url")
	_, _, err = endpoint("http://token.invalid/").Fetch(t.Context())
	check(t, err, false, "token.invalid", "cannot be reached")

	held := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-held }))
	defer silent.Close()
	defer close(held)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // as a relay that ends
	defer cancel()
	if _, _, err := endpoint(silent.URL).Fetch(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	e := endpoint(silent.URL)
	e.Timeout = 50 * time.Millisecond
	_, _, err = e.Fetch(t.Context())
	check(t, err, false, silent.URL, "cannot be reached (no answer in time)")
}

// The endpoint's certificate is verified, with CAs that are read again for each token.
func TestEndpointWithTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token": "x", "token_type": "Bearer"}`)
	}))
	defer server.Close()
	server.Config.ErrorLog = nil
	e := endpoint(server.URL)
	_, _, err := e.Fetch(t.Context())
	check(t, err, true, "unknown authority", "kafka.sasl.oauth.tls.ca")
	ca := filepath.Join(t.TempDir(), "ca.pem")
	e.TLS = (&config.TLS{CA: ca}).ClientConfig
	_, _, err = e.Fetch(t.Context())
	check(t, err, true, "kafka.sasl.oauth.tls", "no such file")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, expires, err := e.Fetch(t.Context()); err != nil || !expires.IsZero() {
		t.Error(expires, err)
	}
}

// A token serves for half of its life, unless a broker refuses it. After that an endpoint that is away is not noticed until the token has expired.
func TestCache(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fetched, refused, away := 0, "", error(nil)
		get := kafka.CachedToken(func(context.Context) (string, time.Time, error) {
			if away != nil {
				return "", time.Time{}, away
			}
			fetched++
			return fmt.Sprint(fetched), time.Now().Add(time.Minute), nil
		})
		want := func(want string) {
			t.Helper()
			if got, err := get(t.Context(), refused); got != want || err != nil {
				t.Errorf("%q %v, want %s", got, err, want)
			}
		}
		pass := func(d time.Duration) { <-time.After(d) }
		want("1")
		pass(29 * time.Second)
		want("1")
		pass(time.Second)
		want("2")
		away = errors.New("away")
		pass(57 * time.Second)
		want("2")
		pass(time.Second)
		if _, err := get(t.Context(), ""); !errors.Is(err, away) {
			t.Error(err)
		}
		away = nil
		want("3")
		refused = "3"
		want("4")
		want("4")
	})
}

func TestMSKToken(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	t.Setenv("AWS_SESSION_TOKEN", "session")
	token, expires, err := (&kafka.MSKToken{Region: "eu-west-1"}).Fetch(t.Context())
	if left := time.Until(expires); token == "" || err != nil || left < 14*time.Minute || left > 15*time.Minute {
		t.Errorf("%q %s %v", token, expires, err)
	}
}

func TestMSKWithoutCredentials(t *testing.T) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": "", "AWS_EC2_METADATA_DISABLED": "true", "AWS_PROFILE": "",
		"AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
	} {
		t.Setenv(name, value)
	}
	_, _, err := (&kafka.MSKToken{Region: "eu-west-1"}).Fetch(t.Context())
	check(t, err, false, "cannot sign a token for Amazon MSK", "AWS_ACCESS_KEY_ID")
	_, _, err = (&kafka.MSKToken{Region: "eu-west-1", Profile: "nobody"}).Fetch(t.Context())
	check(t, err, false, "nobody")
}

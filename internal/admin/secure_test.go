package admin_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/cdc-relay/cdc-relay/internal/admin"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// webConfig writes a certificate for localhost and a web config with it and a user. It returns the config's path and a TLS
// configuration that trusts the certificate.
func webConfig(t *testing.T) (string, *tls.Config) {
	t.Helper()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testenv.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	testenv.Must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	testenv.Must(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	testenv.Must(t, err)
	put(t, filepath.Join(dir, "cert.pem"), string(cert))
	put(t, filepath.Join(dir, "key.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	path := filepath.Join(dir, "web.yaml")
	put(t, path, fmt.Sprintf("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\nbasic_auth_users: {ops: %q}\n", hash))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	return path, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

func put(t *testing.T, path, content string) {
	t.Helper()
	testenv.Must(t, os.WriteFile(path, []byte(content), 0o600))
}

func TestTLSAndBasicAuth(t *testing.T) {
	o := newRelay().options()
	path, trusted := webConfig(t)
	o.WebConfig = path
	_, port, _ := strings.Cut(serve(t, o), ":")

	got, err := admin.Fetch(t.Context(), "https://ops:secret@localhost:"+port, trusted)
	if err != nil || got.State != "leading" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, c := range []struct {
		name, url string
		config    *tls.Config
		want      []string
	}{
		{"no user", "https://localhost:" + port, trusted, []string{"wants a user and a password"}},
		{"wrong password", "https://ops:hunter2@localhost:" + port, trusted, []string{"wants a user and a password"}},
		{"unknown authority", "https://ops:secret@localhost:" + port, nil, []string{"certificate", "trust its authority"}},
		{"no TLS", "http://ops:secret@localhost:" + port, nil, []string{"uses TLS", "use https://"}},
	} {
		_, err := admin.Fetch(t.Context(), c.url, c.config)
		wantText(t, c.name, err, c.want)
	}
}

// An orchestrator's probes know neither the password nor the CA, and must not learn the reason. There is no page for them.
func TestHealthListenWithoutTLSAndPassword(t *testing.T) {
	r := newRelay()
	o := r.options()
	o.WebConfig, _ = webConfig(t)
	o.HealthListen = "127.0.0.1:0"
	base := "http://" + start(t, o).HealthAddr().String()
	for path, want := range map[string]string{"/livez": "200 ok\n", "/readyz": "200 ok\n"} {
		if code, _, body := get(t, base+path); fmt.Sprint(code, " ", body) != want {
			t.Errorf("%s: %d %q, want %q", path, code, body, want)
		}
	}
	for _, path := range []string{"/status", "/metrics", "/", "/app.js", "/api/page", "/api/rights"} {
		if code, _, body := get(t, base+path); code != http.StatusNotFound || body != "404 page not found\n" {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	r.becomes(errors.New("host db.internal is not known"), nil)
	if code, _, body := get(t, base+"/readyz"); code != http.StatusServiceUnavailable || body != "failed\n" {
		t.Errorf("/readyz: %d %q", code, body)
	}
}

func TestFetchErrors(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/json" {
			_, _ = w.Write([]byte(`{"offset": 1}`))
			return
		}
		http.NotFound(w, r)
	}))
	defer other.Close()
	for name, c := range map[string]struct {
		url  string
		want []string
	}{
		"nobody there":   {"http://127.0.0.1:1", []string{"no relay answers at http://127.0.0.1:1/status", "cdc-relay run"}},
		"no such host":   {"http://relay.invalid:9464", []string{"no relay answers", "lookup relay.invalid"}},
		"not a URL":      {"localhost:9464", []string{"http://host:9464"}},
		"another server": {other.URL, []string{"404", "give the address of a cdc-relay"}},
		"other JSON":     {other.URL + "/json", []string{"give the address of a cdc-relay"}},
		"TLS to plain":   {strings.Replace(other.URL, "http://", "https://ops:secret@", 1), []string{"does not use TLS", "use http://"}},
	} {
		_, err := admin.Fetch(t.Context(), c.url, nil)
		wantText(t, name, err, c.want)
	}
}

func wantText(t *testing.T, what string, err error, want []string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	for _, part := range want {
		if !strings.Contains(cdc.Explain(err), part) {
			t.Errorf("%s: %q does not say %q", what, err, part)
		}
	}
	if strings.Contains(cdc.Explain(err), "secret") || strings.Contains(cdc.Explain(err), "hunter2") {
		t.Errorf("%s: %q shows the password", what, err)
	}
}

func TestWebConfigErrors(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"unknown key":  "tls: {}\nusers: {}\n",
		"no key":       "tls_server_config: {cert_file: cert.pem}\n",
		"missing file": "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n",
		"plain secret": "basic_auth_users: {ops: secret}\n",
	} {
		path := filepath.Join(dir, "web.yaml")
		put(t, path, content)
		o := newRelay().options()
		o.WebConfig = path
		_, err := admin.New(t.Context(), o, slog.New(slog.DiscardHandler))
		wantMistake(t, name, err, []string{"http.web_config " + path + " cannot be used"})
		wantText(t, name, err, nil)
	}
	o := newRelay().options()
	o.WebConfig = filepath.Join(dir, "nowhere.yaml")
	_, err := admin.New(t.Context(), o, slog.New(slog.DiscardHandler))
	wantMistake(t, "no file", err, []string{"no such file"})
}

func TestURL(t *testing.T) {
	for listen, want := range map[string]string{
		":9464":          "http://localhost:9464",
		"0.0.0.0:9464":   "http://localhost:9464",
		"[::]:9464":      "http://localhost:9464",
		"127.0.0.1:9465": "http://127.0.0.1:9465",
		"[fd00::1]:9464": "http://[fd00::1]:9464",
		"relay.lan:9464": "http://relay.lan:9464",
	} {
		if got, err := admin.URL(listen); err != nil || got != want {
			t.Errorf("%s: %q, %v", listen, got, err)
		}
	}
	if _, err := admin.URL("9464"); err == nil {
		t.Error("9464 was accepted as an address")
	}
}

package secure

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

const (
	audience     = "kafka-of-orders"
	clientSecret = `hunter2 %/+:é`
)

// issuer is an identity provider: a token endpoint, and the key by which brokers verify its tokens.
type issuer struct {
	server *httptest.Server
	key    *rsa.PrivateKey

	mu     sync.Mutex
	away   map[string]bool // by the parameter "test" of requests
	tokens map[string]int  // issued
}

func newIssuer() (*issuer, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	i := &issuer{key: key, away: map[string]bool{}, tokens: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /jwks", i.serveKeys)
	mux.HandleFunc("POST /token", i.serveToken)
	i.server = httptest.NewServer(mux)
	return i, nil
}

func (i *issuer) close() { i.server.Close() }

func (i *issuer) jwks() string { return i.server.URL + "/jwks" }

// set sets whether the token endpoint is away for a test.
func (i *issuer) set(test string, away bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.away[test] = away
}

func (i *issuer) issued(test string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.tokens[test]
}

func (i *issuer) serveKeys(w http.ResponseWriter, _ *http.Request) {
	exponent := big.NewInt(int64(i.key.E)).Bytes()
	writeJSON(w, map[string]any{"keys": []any{map[string]string{
		"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "test", "n": encode(i.key.N.Bytes()), "e": encode(exponent),
	}}})
}

// serveToken gives a token for the audience and of the life that is asked for.
func (i *issuer) serveToken(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	_, _, basic := r.BasicAuth()
	test := r.FormValue("test")
	life, err := time.ParseDuration(r.FormValue("life"))
	if err != nil {
		life = time.Minute
	}
	switch {
	case i.away[test]:
		w.WriteHeader(http.StatusServiceUnavailable)
	case basic, r.FormValue("client_id") != "relay", r.FormValue("client_secret") != clientSecret:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		writeJSON(w, map[string]string{"error": "invalid_client"})
	default:
		i.tokens[test]++
		token, err := i.sign(r.FormValue("audience"), time.Now().Add(life))
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		writeJSON(w, map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": int(life.Seconds())})
	}
}

// sign returns a JWT.
func (i *issuer) sign(audience string, expires time.Time) (string, error) {
	header, err := json.Marshal(map[string]string{"alg": "RS256", "kid": "test", "typ": "JWT"})
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(map[string]any{
		"iss": i.server.URL, "aud": audience, "sub": "relay", "scope": "kafka", "iat": time.Now().Unix(), "exp": expires.Unix(),
	})
	if err != nil {
		return "", err
	}
	text := encode(header) + "." + encode(claims)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, sum[:])
	return text + "." + encode(signature), err
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client notices
}

package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// TokenEndpoint is a token endpoint with the client's credentials.
type TokenEndpoint struct {
	URL, ClientID string
	// Secret is called for every token, so that a rotated one is used.
	Secret func(context.Context) (string, error)
	Scopes []string
	// Params are more parameters of the request.
	Params map[string]string
	// TLS is called for every token; nil: with the system's CAs.
	TLS func() (*tls.Config, error)
	// Timeout bounds one request, answer included; 0 is 10 s.
	Timeout time.Duration
}

const tokenTimeout = 10 * time.Second

const oauthSetting = "kafka.sasl.oauth."

// Fetch gets a token by the grant "client credentials".
func (e *TokenEndpoint) Fetch(ctx context.Context) (string, time.Time, error) {
	secret, err := e.Secret(ctx)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("%sclient_secret: %w", oauthSetting, err)
	}
	client, err := e.client()
	if err != nil {
		return "", time.Time{}, cdc.Stop(cdc.ClassConfig, "kafka_oauth", fmt.Errorf("%stls: %w", oauthSetting, err), "correct the file, or its path")
	}
	asking, cancel := context.WithTimeout(ctx, cmp.Or(e.Timeout, tokenTimeout))
	defer cancel()
	params := url.Values{}
	for name, value := range e.Params {
		params.Set(name, value)
	}
	conf := clientcredentials.Config{ClientID: e.ClientID, ClientSecret: secret, TokenURL: e.URL, Scopes: e.Scopes, EndpointParams: params}
	token, err := conf.Token(context.WithValue(asking, oauth2.HTTPClient, client))
	if err != nil {
		return "", time.Time{}, e.explain(ctx, err, secret)
	}
	return token.AccessToken, token.Expiry, nil
}

// client makes one request on a connection of its own, so that renewed CAs are used. It follows no redirect: the secret is for
// this endpoint alone.
func (e *TokenEndpoint) client() (*http.Client, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ForceAttemptHTTP2: true}
	if e.TLS != nil {
		var err error
		if transport.TLSClientConfig, err = e.TLS(); err != nil {
			return nil, err
		}
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: transport, CheckRedirect: stay}, nil
}

// explain says what is wrong with the endpoint's answer, without its body, which may repeat the request.
func (e *TokenEndpoint) explain(ctx context.Context, err error, secret string) error {
	var answer *oauth2.RetrieveError
	var failed *url.Error
	fix := cdc.TLSFix(err, oauthSetting+"tls")
	switch {
	case errors.As(err, &answer) && answer.Response != nil:
		return e.refused(answer, secret)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &failed) && fix != "":
		return cdc.ConfigError("kafka_oauth", fix, "token endpoint %s cannot be trusted (%w)", e.URL, failed.Err)
	case failed != nil:
		return cdc.Fixable("start it, or correct "+oauthSetting+"token_url, DNS, proxy and firewall",
			"token endpoint %s cannot be reached (%s)", e.URL, cdc.LastCause(failed))
	default:
		return cdc.Fixable("correct "+oauthSetting+"token_url, or wait until the endpoint answers with a token",
			"token endpoint %s answers with something else than a token", e.URL)
	}
}

// refused tells what the endpoint says: RFC 6749, section 5.2.
func (e *TokenEndpoint) refused(answer *oauth2.RetrieveError, secret string) error {
	said := http.StatusText(answer.Response.StatusCode)
	if answer.ErrorCode != "" {
		said = strings.Join(strings.Fields(answer.ErrorCode+" "+answer.ErrorDescription), " ")
		// Some endpoints repeat the request: the secret as it is, in a form and in a header.
		basic := base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(e.ClientID) + ":" + url.QueryEscape(secret)))
		said = strings.NewReplacer(secret, "***", url.QueryEscape(secret), "***", basic, "***").Replace(said)
	}
	const most = 300
	status, cause := answer.Response.StatusCode, fmt.Errorf("token endpoint %s refuses the request (%d: %.*s)", e.URL, answer.Response.StatusCode, most, said)
	switch {
	case status >= http.StatusInternalServerError, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout:
		return &cdc.FixableError{Cause: cause, Fix: "wait until it works again, or read its log"}
	case status/100 == 3, status == http.StatusNotFound, status == http.StatusMethodNotAllowed:
		return cdc.Stop(cdc.ClassConfig, "kafka_oauth", cause, "correct "+oauthSetting+"token_url")
	default:
		return cdc.Stop(cdc.ClassConfig, "kafka_oauth", cause, "correct "+oauthSetting+"client_id, client_secret, scopes and params")
	}
}

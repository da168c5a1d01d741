package admin

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// URL returns the URL, without TLS, of a relay on this machine that listens on listen.
func URL(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", cdc.Fixable(hostPort, "http.listen is %q", listen)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

// Fetch returns the status of the relay at base ("http://host:9464", with user:password@ if it requires them). A nil
// config trusts the system's authorities.
func Fetch(ctx context.Context, base string, config *tls.Config) (Status, error) {
	target, err := statusURL(base)
	if err != nil {
		return Status{}, err
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, ForceAttemptHTTP2: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return Status{}, fmt.Errorf("ask %s: %w", target.Redacted(), err)
	}
	answer, err := client.Do(req)
	if err != nil {
		return Status{}, unanswered(target, err)
	}
	defer func() { _ = answer.Body.Close() }()
	return readStatus(target, answer)
}

// statusURL adds the path if it is missing.
func statusURL(base string) (*url.URL, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, cdc.Fixable("write it as http://host:9464", "the relay's address (--url) is not a URL of http or https")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/status"
	}
	return u, nil
}

func unanswered(target *url.URL, err error) error {
	where, untrusted := target.Redacted(), new(tls.CertificateVerificationError)
	switch {
	case errors.As(err, &untrusted):
		return cdc.Fixable("use a name that the certificate is for, or trust its authority with --ca", "the certificate at %s cannot be verified (%w)", where, untrusted.Err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return cdc.Fixable("use http:// instead of https://", "the relay at %s does not use TLS", where)
	default:
		return cdc.Fixable("start it with `cdc-relay run`, or give its address with --url", "no relay answers at %s (%s)", where, cdc.LastCause(err))
	}
}

// maxStatus limits the size of a response.
const maxStatus = 1 << 20

func readStatus(target *url.URL, answer *http.Response) (Status, error) {
	where := target.Redacted()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxStatus))
	if err != nil {
		return Status{}, fmt.Errorf("read %s: %w", where, err)
	}
	switch {
	case answer.StatusCode == http.StatusUnauthorized:
		return Status{}, cdc.Fixable("write them into the address, http://user:password@host:port", "the relay at %s wants a user and a password", where)
	case answer.StatusCode == http.StatusBadRequest && strings.Contains(string(body), "HTTPS server"):
		return Status{}, cdc.Fixable("use https:// and a name that its certificate is for", "the relay at %s uses TLS", where)
	case answer.StatusCode != http.StatusOK:
		return Status{}, cdc.Fixable("give the address of a cdc-relay with --url", "%s answers %s", where, answer.Status)
	}
	var st Status
	if err := json.Unmarshal(body, &st); err != nil || st.State == "" {
		return Status{}, cdc.Fixable("give the address of a cdc-relay with --url", "%s does not answer with a relay's status", where)
	}
	return st, nil
}

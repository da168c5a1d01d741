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
	"syscall"
)

// URL is where a relay on this machine that listens on listen is asked for its status, without TLS.
func URL(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("http.listen is %q: write it as host:port, or :port for all addresses", listen)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

// Fetch asks the relay at base ("http://host:9464", with user:password@ where it wants them) for its
// status. A nil config trusts the system's authorities. It blocks until ctx ends at most.
func Fetch(ctx context.Context, base string, config *tls.Config) (Status, error) {
	target, err := statusURL(base)
	if err != nil {
		return Status{}, err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, ForceAttemptHTTP2: true}}
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

// statusURL adds the path where the user has left it out.
func statusURL(base string) (*url.URL, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the relay's address (--url) must look like http://host:9464")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/status"
	}
	return u, nil
}

func unanswered(target *url.URL, err error) error {
	var (
		dns       *net.DNSError
		untrusted *tls.CertificateVerificationError
		fetch     *url.Error
	)
	where := target.Redacted()
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no relay answers at %s (connection refused): start it with 'cdc-relay run', or give its address with --url", where)
	case errors.As(err, &dns):
		return fmt.Errorf("host %s is not known: give the relay's address with --url", dns.Name)
	case errors.As(err, &untrusted):
		return fmt.Errorf("the certificate at %s does not hold (%w): use the name that stands in it, or trust its authority", where, untrusted.Err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("the relay at %s speaks no TLS: use http:// instead of https://", where)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the relay at %s did not answer in time: see whether it is up and reachable", where)
	case errors.As(err, &fetch):
		return fmt.Errorf("ask %s: %w", where, fetch.Err)
	default:
		return fmt.Errorf("ask %s: %w", where, err)
	}
}

// maxStatus bounds what is read of an answer.
const maxStatus = 1 << 20

func readStatus(target *url.URL, answer *http.Response) (Status, error) {
	where := target.Redacted()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxStatus))
	if err != nil {
		return Status{}, fmt.Errorf("read %s: %w", where, err)
	}
	switch {
	case answer.StatusCode == http.StatusUnauthorized:
		return Status{}, fmt.Errorf("the relay at %s wants a user and a password: write them into the address, http://user:password@host:port", where)
	case answer.StatusCode == http.StatusBadRequest && strings.Contains(string(body), "HTTPS server"):
		return Status{}, fmt.Errorf("the relay at %s speaks TLS: use https:// and the name that stands in its certificate", where)
	case answer.StatusCode != http.StatusOK:
		return Status{}, fmt.Errorf("%s answers %s: give the address of a cdc-relay with --url", where, answer.Status)
	}
	var st Status
	if err := json.Unmarshal(body, &st); err != nil || st.State == "" {
		return Status{}, fmt.Errorf("%s does not answer with a relay's status: give the address of a cdc-relay with --url", where)
	}
	return st, nil
}

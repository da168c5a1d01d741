package kafka

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

// credentialError is a credential that cannot be had, so that no broker can be reached.
type credentialError struct{ error }

func (e *credentialError) Unwrap() error { return e.error }

// tokens gives sarama the tokens of one connection: for its first authentication, and for those that a broker asks for when a
// token expires or connections.max.reauth.ms has passed (KIP-368).
type tokens struct {
	get        func() (string, error)
	extensions map[string]string
	last       string
	used       bool
}

// newTokens gets the first token before anything is dialed: its errors are not the broker's.
func newTokens(ctx context.Context, s *SASL) (t *tokens, err error) {
	t = &tokens{extensions: s.Extensions, get: func() (string, error) {
		refused, _ := s.refused.Load().(string)
		token, err := s.Token(ctx, refused)
		if err != nil {
			return "", &credentialError{fmt.Errorf("get a token for Kafka: %w", err)}
		}
		return token, nil
	}}
	t.last, err = t.get()
	return t, err
}

// Token implements sarama.AccessTokenProvider. A connection calls it by one goroutine at a time.
func (t *tokens) Token() (_ *sarama.AccessToken, err error) {
	if t.used {
		if t.last, err = t.get(); err != nil {
			return nil, err
		}
	}
	t.used = true
	return &sarama.AccessToken{Token: t.last, Extensions: t.extensions}, nil
}

// refusedToken is a token that a broker does not accept.
type refusedToken struct {
	err    error
	claims string
}

func (e *refusedToken) Error() string {
	if e.claims == "" {
		return "the broker refuses the token: " + e.err.Error()
	}
	return fmt.Sprintf("the broker refuses the token with %s: %s", e.claims, e.err)
}

func (e *refusedToken) Unwrap() error { return e.err }

// claims describes a token that a broker refuses, without the token: what a broker checks is in its claims. "" if it is
// not a JWT.
func claims(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var c struct {
		Issuer   string  `json:"iss"`
		Subject  string  `json:"sub"`
		Audience any     `json:"aud"`
		Expires  float64 `json:"exp"`
	}
	if json.Unmarshal(payload, &c) != nil {
		return ""
	}
	return fmt.Sprintf("issuer %q, audience %q, subject %q, expires %s", c.Issuer, c.Audience, c.Subject,
		time.Unix(int64(c.Expires), 0).UTC().Format(time.RFC3339))
}

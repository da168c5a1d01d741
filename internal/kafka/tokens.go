package kafka

import (
	"context"
	"fmt"

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

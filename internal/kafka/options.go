package kafka

import (
	"context"
	"crypto/tls"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
)

// SASL mechanisms.
const (
	Plain       = sarama.SASLTypePlaintext
	ScramSHA256 = sarama.SASLTypeSCRAMSHA256
	ScramSHA512 = sarama.SASLTypeSCRAMSHA512
	OAuthBearer = sarama.SASLTypeOAuth
)

// SASL holds the credentials for listeners that require authentication.
type SASL struct {
	// Mechanism is [Plain], [ScramSHA256], [ScramSHA512] or [OAuthBearer].
	Mechanism string
	Username  string
	// Password is called for every connection, so that a rotated secret is used.
	Password func(context.Context) (string, error)
	// Token is called for every connection with OAuthBearer, and again before the broker's limit for a session. refused is a token that a
	// broker did not accept, "" for none.
	Token func(ctx context.Context, refused string) (string, error)
	// Extensions accompany the token.
	Extensions map[string]string

	refused atomic.Value // a string
}

// Options configure a [Client], as package config has validated them.
type Options struct {
	// Brokers are the host:port addresses to begin with.
	Brokers []string
	// ClientID appears in the brokers' logs and quotas.
	ClientID string
	// TLS is nil for plaintext listeners. It is called for every connection, so that renewed files are used. An empty
	// ServerName is filled in for each broker.
	TLS func() (*tls.Config, error)
	// SASL is nil for listeners without authentication.
	SASL *SASL
	// DialTimeout bounds connecting, TLS and authentication included. Default: 5 s.
	DialTimeout time.Duration
	// RequestTimeout is how long a broker may take to answer before its connection is closed.
	RequestTimeout time.Duration
}

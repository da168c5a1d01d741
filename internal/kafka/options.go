package kafka

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
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
	// Token is called for every connection with OAuthBearer, and again before the broker's limit for a session.
	Token func(context.Context) (string, error)
	// Extensions accompany the token.
	Extensions map[string]string
}

// Options configure a [Client]. Zero values mean the defaults given here; only Brokers is required.
type Options struct {
	// Brokers are the host:port addresses to begin with.
	Brokers []string
	// ClientID appears in the brokers' logs and quotas; "cdc-relay".
	ClientID string
	// TLS is nil for plaintext listeners. It is called for every connection, so that renewed files are used. An empty
	// ServerName is filled in for each broker.
	TLS func() (*tls.Config, error)
	// SASL is nil for listeners without authentication.
	SASL *SASL
	// DialTimeout bounds connecting, TLS and authentication included; 5 s.
	DialTimeout time.Duration
	// RequestTimeout is how long a broker may take to answer before its connection is closed; 15 s.
	RequestTimeout time.Duration
}

// WithDefaults returns the options with the defaults filled in.
func (o Options) WithDefaults() Options {
	if o.ClientID == "" {
		o.ClientID = "cdc-relay"
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = 5 * time.Second
	}
	if o.RequestTimeout == 0 {
		o.RequestTimeout = 15 * time.Second
	}
	return o
}

func (o *Options) validate() error {
	if len(o.Brokers) == 0 {
		return cdc.Fixable("set kafka.brokers to at least one host:port", "no Kafka brokers given")
	}
	for _, addr := range o.Brokers {
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
			return cdc.Fixable("write it as for example broker-1:9092", "kafka broker %q is not host:port", addr)
		}
	}
	return o.SASL.validate()
}

func (s *SASL) validate() error {
	switch {
	case s == nil:
		return nil
	case s.Mechanism == OAuthBearer && s.Token == nil:
		return cdc.Fixable("set kafka.sasl.oauth", "SASL has no token")
	case s.Mechanism == OAuthBearer:
		return nil
	case s.Mechanism != Plain && s.Mechanism != ScramSHA256 && s.Mechanism != ScramSHA512:
		return cdc.Fixable("use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER", "SASL mechanism %q is not known", s.Mechanism)
	case s.Username == "":
		return cdc.Fixable("set kafka.sasl.username", "SASL has no username")
	case s.Password == nil:
		return cdc.Fixable("set kafka.sasl.password", "SASL has no password")
	}
	return nil
}

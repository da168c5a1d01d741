package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// ErrTopicMissing is the cause of [MissingTopicError] for a topic that the brokers do not know.
var ErrTopicMissing = errors.New("the topic does not exist")

// MissingTopicError stops a relay whose topic does not exist.
func MissingTopicError(topic string, cause error) error {
	return cdc.Stop(cdc.ClassConfig, "unknown_topic", fmt.Errorf("publish to topic %q: %w", topic, cause),
		"create it, set topics.create, correct the route or what writes the topic, or set errors.unknown_topic: dead_letter")
}

// DeniedTopicError stops a relay that may not write to a topic, or whose topic does not support its settings.
func DeniedTopicError(topic string, cause error) error {
	fix := "grant the relay's principal DESCRIBE and WRITE on it"
	switch {
	case errors.Is(cause, sarama.ErrUnsupportedCompressionType):
		fix = "set kafka.compression to a codec that the brokers know"
	case errors.Is(cause, sarama.ErrUnsupportedForMessageFormat), errors.Is(cause, sarama.ErrUnsupportedVersion):
		fix = "set the topic's message.format.version to 0.11 or newer: older formats have neither headers nor idempotence"
	case errors.Is(cause, sarama.ErrClusterAuthorizationFailed):
		fix = "grant the relay's principal IDEMPOTENT_WRITE on the cluster, as brokers before 2.8 want it"
	}
	return cdc.Stop(cdc.ClassConfig, "topic_denied", fmt.Errorf("publish to topic %q: %w", topic, cause), fix)
}

var errSpeaksTLS = errors.New("the listener speaks TLS")

// errNoAnswer is a listener that accepts connections and does not answer.
var errNoAnswer = errors.New("it accepts connections and does not answer as a broker does")

// errNotForClients is a listener that only brokers and controllers talk to.
func errNotForClients(addr string, err error) error {
	return cdc.Fixable("name listeners for clients in kafka.brokers", "Kafka at %s has no metadata for clients, as the listener of a controller (%w)", addr, err)
}

// handshakeError is a failed TLS handshake.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return "TLS handshake: " + e.err.Error() }
func (e *handshakeError) Unwrap() error { return e.err }

// explain adds the cause of a failed connection and its fix. Wrong credentials and TLS settings are a [cdc.StopError];
// all other failures may be temporary.
func (c *Client) explain(addr string, err error) error {
	cause := fmt.Errorf("Kafka at %s: %w", addr, err) //nolint:staticcheck // a name
	switch {
	case hungUp(err):
		cause = fmt.Errorf("%w: it closed the connection", cause)
	case isRecordHeader(err):
		cause = fmt.Errorf("%w: the listener seems to be a plaintext one", cause)
	}
	say := func(fix string) error { return &cdc.FixableError{Cause: cause, Fix: fix} }
	config := func(reason, fix string) error { return cdc.Stop(cdc.ClassConfig, reason, cause, fix) }
	var dns *net.DNSError
	var handshake *handshakeError
	var timeout net.Error
	switch {
	case err == nil:
		return fmt.Errorf("Kafka at %s: %w", addr, sarama.ErrNotConnected) //nolint:staticcheck // a name
	case errors.Is(err, context.Canceled):
		return cause
	case errors.As(err, new(*credentialError)):
		return cause
	case errors.Is(err, sarama.ErrSASLAuthenticationFailed) && c.opts.SASL != nil && c.opts.SASL.Mechanism == OAuthBearer:
		return config("kafka_auth", "compare issuer and audience with the brokers' sasl.oauthbearer.expected.issuer and .expected.audience, "+
			"and set kafka.sasl.oauth.params, scopes and extensions accordingly; on Amazon MSK allow kafka-cluster:Connect in the IAM policy")
	case errors.Is(err, sarama.ErrSASLAuthenticationFailed):
		return config("kafka_auth", "check kafka.sasl.username, password and mechanism")
	case errors.Is(err, sarama.ErrUnsupportedSASLMechanism):
		return config("kafka_auth", "set kafka.sasl.mechanism to one that this listener offers (sasl.enabled.mechanisms)")
	case errors.Is(err, sarama.ErrIllegalSASLState):
		return config("kafka_auth", "remove kafka.sasl if the listener wants no credentials, or use the address of a SASL listener")
	case errors.Is(err, errSpeaksTLS):
		return config("kafka_tls", "set kafka.tls, or use the address of a plaintext listener")
	case strings.Contains(err.Error(), "remote error: tls: "): // after the handshake, which ends for a client before the server has its certificate
		return config("kafka_tls", tlsFix(err))
	case errors.As(err, &handshake) && isTLS(handshake.err):
		return config("kafka_tls", tlsFix(handshake.err))
	case errors.As(err, &handshake):
		return say(tlsFix(handshake.err))
	case errors.As(err, &dns):
		return say("check the name in kafka.brokers and, if it is one that a broker announces, advertised.listeners and DNS")
	case errors.Is(err, syscall.ECONNREFUSED):
		return say("check host and port and that the broker runs")
	case errors.Is(err, errNoAnswer):
		return say("correct host and port in kafka.brokers, or see why the broker does not answer")
	case errors.As(err, &timeout) && timeout.Timeout():
		return say("check the address, the network and firewalls")
	case c.opts.SASL != nil && hungUp(err):
		return say("see whether this is the port of a Kafka listener, whether that is a SASL one, and whether it wants kafka.tls")
	case hungUp(err):
		return say("see whether this is the port of a Kafka listener, and whether that wants kafka.tls or kafka.sasl")
	default:
		return say("check kafka.brokers")
	}
}

func tlsFix(err error) string {
	if hungUp(err) || isRecordHeader(err) || errors.Is(err, context.DeadlineExceeded) {
		return "remove kafka.tls if the listener is a plaintext one, or use the address of a TLS listener"
	}
	if fix := cdc.TLSFix(err, "kafka.tls"); fix != "" {
		return fix
	}
	return "check kafka.tls: the CA that signed the broker's certificate, the name in it, and whether a client certificate is wanted"
}

// isTLS reports whether the two sides disagree, as opposed to a broken connection.
func isTLS(err error) bool {
	return isRecordHeader(err) || strings.Contains(err.Error(), "x509: ") || strings.Contains(err.Error(), "tls: ")
}

func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}

func isRecordHeader(err error) bool {
	var header tls.RecordHeaderError
	return errors.As(err, &header)
}

// Package secure tests the relay's connections with TLS and credentials on real servers: each credential is replaced while the
// relay publishes, in the right order and in the wrong one.
package secure

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// shared are the binary and the servers of this process.
var shared struct {
	binary   string
	kafka    *testenv.KafkaCluster
	issuer   *issuer
	postgres *testenv.PostgresServer // with TLS
}

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, startServers, stopServers)) }

func startServers(ctx context.Context, dir string) (err error) {
	if shared.binary, err = cdctest.Binary(ctx, dir); err != nil {
		return err
	}
	if shared.issuer, err = newIssuer(); err != nil {
		return err
	}
	if shared.kafka, err = testenv.StartKafka(ctx, kafkaOptions(shared.issuer)); err != nil {
		return err
	}
	shared.postgres, err = testenv.StartPostgres(ctx, postgresOptions())
	return err
}

func stopServers() error {
	defer shared.issuer.close()
	return errors.Join(shared.kafka.Close(), shared.postgres.Close())
}

// kafkaOptions are a broker whose proxied listener wants TLS with a client certificate and a password, and whose SASL listener
// also takes tokens of the issuer.
func kafkaOptions(i *issuer) testenv.KafkaOptions {
	const oauth = "listener.name.sasl.oauthbearer."
	return testenv.KafkaOptions{Secure: true, Proxied: true, JVM: []string{
		"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=" + i.jwks(),
	}, Settings: map[string]string{
		"listener.security.protocol.map": "PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,SASL:SASL_PLAINTEXT,SASLTLS:SASL_SSL,PROXIED:SASL_SSL",

		"listener.name.sasl.sasl.enabled.mechanisms":           "PLAIN,OAUTHBEARER",
		"listener.name.proxied.sasl.enabled.mechanisms":        "SCRAM-SHA-512",
		"listener.name.proxied.ssl.client.auth":                "required",
		"listener.name.proxied.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",

		oauth + "sasl.jaas.config":                           "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
		oauth + "sasl.server.callback.handler.class":         "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
		oauth + "sasl.oauthbearer.jwks.endpoint.url":         i.jwks(),
		oauth + "sasl.oauthbearer.expected.audience":         audience,
		oauth + "sasl.oauthbearer.expected.issuer":           i.server.URL,
		oauth + "sasl.oauthbearer.clock.skew.seconds":        "0",
		oauth + "connections.max.reauth.ms":                  "3600000",
		"listener.name.sasl.plain.connections.max.reauth.ms": "3000",
	}}
}

// postgresOptions want a certificate of the user's name and a password of the relay, a password in clear text of the role plain, and
// nothing of writers and checkers.
func postgresOptions() testenv.PostgresOptions {
	return testenv.PostgresOptions{TLS: true, HBA: []string{
		"hostssl all relay 127.0.0.1/32 scram-sha-256 clientcert=verify-full", "hostssl all postgres 127.0.0.1/32 trust", "hostssl all plain 127.0.0.1/32 password",
	}}
}

// databaseName is a name for a test's database and topics.
func databaseName(tb testing.TB) string {
	tb.Helper()
	name := strings.TrimPrefix(strings.ToLower(tb.Name()), "test")
	return strings.NewReplacer("/", "_", "-", "_").Replace(name)
}

func newPostgres(tb testing.TB) *cdctest.Postgres {
	tb.Helper()
	db, err := cdctest.NewPostgres(tb.Context(), shared.postgres, databaseName(tb))
	testenv.Must(tb, err)
	return db
}

func newRig(tb testing.TB, db cdctest.Database, change func(*cdctest.RigOptions)) *cdctest.Rig {
	tb.Helper()
	o := cdctest.RigOptions{Binary: shared.binary, DB: db, Kafka: shared.kafka}
	change(&o)
	o.Settings["log.level"] = "debug"
	return cdctest.NewRig(tb, o)
}

// write replaces a file at once, as secrets are mounted.
func write(tb testing.TB, path, text string) {
	tb.Helper()
	next := filepath.Join(filepath.Dir(path), ".next-"+filepath.Base(path))
	testenv.Must(tb, os.WriteFile(next, []byte(text), 0o600))
	testenv.Must(tb, os.Rename(next, path))
}

package config_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

func TestReferences(t *testing.T) {
	c := mustParse(t, `
source: {postgres: {dsn: "postgres://${env:USER_NAME}@db/${env:DB:-orders}"}}
retry: {max: "${env:EVERY}"}
routes:
  - match: {tenant_id: "${env:TENANT}-.*"}
    topic: "${env:PREFIX}.${tenant_id}.$${env:PREFIX}"
ce_source: "${env:EMPTY:-/orders}"
kafka: {brokers: ["${env:BROKER}:9092", "k2:${env:PORT:-9093}"], client_id: "$${env:PREFIX}$$"}
topics: {create: {partitions: "${env:COUNT}", config: {retention.ms: 1000, cleanup.policy: "${env:NESTED}"}}}
checkpoint: {redis: {addrs: ["r:1"], tls: {insecure_skip_verify: "${env:YES}"}}}
in_flight: {bytes: "${env:COUNT}MiB", events: 500}
`, map[string]string{
		"USER_NAME": "relay", "EVERY": "5s", "TENANT": "eu", "PREFIX": "orders", "EMPTY": "",
		"BROKER": "k1", "COUNT": "12", "NESTED": "${env:PREFIX} ${file:/none}", "YES": "true",
	})
	for _, check := range []struct{ name, have, want string }{
		{"slot", c.Source.Postgres.Slot, "cdc_relay_orders"},
		{"dsn", c.Source.Postgres.DSN.String(), "postgres://relay@db:5432/orders"},
		{"match", c.Routes[0].Match["tenant_id"], "eu-.*"},
		{"source", c.CESource, "/orders"},
		{"brokers[0]", c.Kafka.Brokers[0], "k1:9092"},
		{"brokers[1]", c.Kafka.Brokers[1], "k2:9093"},
		{"client_id", c.Kafka.ClientID, "${env:PREFIX}$$"},
		{"number as text", c.Topics.Create.Config["retention.ms"], "1000"},
		{"expanded once", c.Topics.Create.Config["cleanup.policy"], "${env:PREFIX} ${file:/none}"},
	} {
		if check.have != check.want {
			t.Errorf("%s: have %q, want %q", check.name, check.have, check.want)
		}
	}
	if c.Topics.Create.Partitions != 12 || c.InFlight.Bytes != 12<<20 || c.Retry.Max != 5*time.Second ||
		!c.Checkpoint.Redis.TLS.InsecureSkipVerify {
		t.Errorf("%+v", c)
	}
}

// The topic of TestReferences is not one: what ${env: stands for is not looked at again, so the text
// ${env:PREFIX} remains a name that the route's template asks for.
func TestEscapedReferenceReachesTheTemplate(t *testing.T) {
	c := mustParse(t, minimal+`routes: [{topic: "a.$${env:PREFIX}"}]`, nil)
	if c.Routes[0].Topic != "a.${env:PREFIX}" {
		t.Errorf("topic %q", c.Routes[0].Topic)
	}
}

func TestPathsStartAtTheFile(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir)
	writeFile(t, filepath.Join(dir, "secret"), "hunter2\r\n\n")
	writeFile(t, filepath.Join(dir, "id"), "relay-1\r\n")
	path := filepath.Join(dir, "relay.yaml")
	writeFile(t, path, minimal[:len(minimal)-2]+`, client_id: "${file:id}", tls: {ca: ca.pem, cert: client.pem, key: client-key.pem},
  sasl: {mechanism: PLAIN, username: relay, password: "${file:secret}"}}
checkpoint: {file: position}
`)
	c, err := config.Load(path, os.LookupEnv)
	testenv.Must(t, err)
	if c.Kafka.ClientID != "relay-1" || c.Checkpoint.File != filepath.Join(dir, "position") {
		t.Errorf("%+v", c)
	}
	if password, err := c.Kafka.SASL.Password.Reveal(t.Context()); err != nil || password != "hunter2\r\n" {
		t.Errorf("password %q %v", password, err)
	}
	tlsConfig, err := c.Kafka.TLS.ClientConfig()
	testenv.Must(t, err)
	if cert, err := tlsConfig.GetClientCertificate(nil); err != nil || len(cert.Certificate) != 1 || tlsConfig.RootCAs == nil {
		t.Errorf("tls %+v %v", cert, err)
	}
}

func TestLoadOfMissingFile(t *testing.T) {
	_, err := config.Load("testdata/none.yaml", os.LookupEnv)
	const want = "configuration file testdata/none.yaml does not exist. Fix: name yours with --config or CDC_RELAY_CONFIG."
	if err == nil || cdc.Explain(err) != want {
		t.Errorf("have %v", err)
	}
	_, err = config.Load(".", os.LookupEnv)
	if err == nil || cdc.Explain(err) != "configuration file . is a directory. Fix: name the file in it with --config or CDC_RELAY_CONFIG." {
		t.Errorf("have %v", err)
	}
}

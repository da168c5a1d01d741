package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	"go.yaml.in/yaml/v4"

	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// The examples, each with a connection string for it.
const (
	examplePostgres, dsnPostgres = "../../deploy/cdc-relay.yaml", "postgres://relay@db/orders"
	exampleMySQL, dsnMySQL       = "../../deploy/cdc-relay-mysql.yaml", "mysql://relay@db/orders"
)

func example(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	testenv.Must(t, err)
	return string(text)
}

// uncommented returns the example with every setting in it switched on, its files in a directory of ours.
func uncommented(t *testing.T, example string) string {
	t.Helper()
	dir := t.TempDir()
	text := regexp.MustCompile(`(?m)^( *)#(\S)`).ReplaceAllString(example, "$1$2")
	for _, secret := range []string{"postgres", "mysql", "kafka", "redis", "sentinel"} {
		path := filepath.Join(dir, secret)
		writeFile(t, path, "hunter2\n")
		text = strings.ReplaceAll(text, "/run/secrets/"+secret, path)
	}
	writeFile(t, filepath.Join(dir, "web.yaml"), "")
	for _, name := range []string{"ca.pem", "client.pem", "client-key.pem", "web.yaml"} {
		text = strings.ReplaceAll(text, ": "+name, ": "+filepath.Join(dir, name))
	}
	writeCertificate(t, dir)
	return text
}

// TestExampleIsComplete switches every line of the example on: it must load, and hold every setting
// there is.
func TestExampleIsComplete(t *testing.T) {
	text := uncommented(t, example(t, examplePostgres))
	mustParse(t, text, map[string]string{"DATABASE_URL": dsnPostgres})
	valid(t, compileSchema(t), text)

	var file map[string]any
	testenv.Must(t, yaml.Load([]byte(text), &file))
	missing(t, reflectSchema(t), file, "", map[string]bool{
		"http.operators":                             true, // not without actions; the four stand in the prose
		"http.peers":                                 true,
		"http.peers_user":                            true,
		"http.peers_password":                        true,
		"source.mysql":                               true, // in an example of its own
		"tables[].write_back":                        true, // not beside only; it stands in the prose
		"tables[].value":                             true, // not beside columns.payload; it stands in the prose
		"checkpoint.file":                            true, // not beside redis; its line stands in the prose
		"source.postgres.password_command":           true, // not beside password, as the other ones
		"kafka.sasl.password_command":                true,
		"kafka.sasl.oauth":                           true, // not beside SCRAM, as aws
		"kafka.sasl.aws":                             true,
		"checkpoint.redis.password_command":          true,
		"checkpoint.redis.sentinel_password_command": true,
		"checkpoint.redis.tls.cert":                  true,
		"checkpoint.redis.tls.key":                   true,
		"checkpoint.redis.tls.server_name":           true,
		"checkpoint.redis.tls.insecure_skip_verify":  true,
	})
}

// TestExampleOfMySQLIsComplete does the same with the example for MySQL, for what differs.
func TestExampleOfMySQLIsComplete(t *testing.T) {
	text := uncommented(t, example(t, exampleMySQL))
	full := mustParse(t, text, map[string]string{"DATABASE_URL": dsnMySQL})
	valid(t, compileSchema(t), text)

	var file map[string]any
	testenv.Must(t, yaml.Load([]byte(text), &file))
	section, _ := reflectSchema(t).Properties.Get("source")
	missing(t, section, file["source"], "source", map[string]bool{"source.postgres": true, "source.mysql.password_command": true})

	plain := mustParse(t, example(t, exampleMySQL), map[string]string{"DATABASE_URL": dsnMySQL})
	valid(t, compileSchema(t), example(t, exampleMySQL))
	have, want := full.Source.MySQL, plain.Source.MySQL
	if have.UnsafeSyncBinlog != want.UnsafeSyncBinlog ||
		!slices.Equal(have.HarmlessTables, want.HarmlessTables) ||
		full.Checkpoint.Redis.Key != plain.Checkpoint.Redis.Key {
		t.Errorf("the example's defaults are not the defaults:\n%+v\n%+v", have, want)
	}
}

func missing(t *testing.T, s *jsonschema.Schema, value any, path string, known map[string]bool) {
	t.Helper()
	if list, ok := value.([]any); ok && s.Items != nil {
		missing(t, s.Items, list[0], path+"[]", known)
		return
	}
	section, _ := value.(map[string]any)
	if s.Properties == nil {
		return
	}
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		full := strings.TrimPrefix(path+"."+p.Key, ".")
		if inner, ok := section[p.Key]; ok {
			missing(t, p.Value, inner, full, known)
		} else if !known[full] {
			t.Errorf("the example lacks %s", full)
		}
	}
}

// TestExampleShowsDefaults holds the example's values to the defaults that it says they are.
func TestExampleShowsDefaults(t *testing.T) {
	vars := map[string]string{"DATABASE_URL": dsnPostgres}
	full := mustParse(t, uncommented(t, example(t, examplePostgres)), vars)
	plain := mustParse(t, example(t, examplePostgres), vars)
	valid(t, compileSchema(t), example(t, examplePostgres))
	if full.InFlight != plain.InFlight || full.Retry != plain.Retry || full.ShutdownTimeout != plain.ShutdownTimeout || full.StartupTimeout != plain.StartupTimeout ||
		full.Log != plain.Log || full.HTTP.Listen != plain.HTTP.Listen ||
		full.Kafka.RequestTimeout != plain.Kafka.RequestTimeout || full.Kafka.Compression != plain.Kafka.Compression ||
		full.Kafka.MaxMessageBytes != plain.Kafka.MaxMessageBytes || full.Kafka.ClientID != plain.Kafka.ClientID ||
		full.Source.Postgres.Slot != plain.Source.Postgres.Slot {
		t.Errorf("the example's defaults are not the defaults:\n%+v\n%+v", full, plain)
	}
	full.Errors.Skip = nil
	if !equalErrors(full.Errors, plain.Errors) {
		t.Errorf("%+v, want %+v", full.Errors, plain.Errors)
	}
}

func equalErrors(a, b config.Errors) bool {
	return a.Policies() == b.Policies() && a.OnStop == b.OnStop
}

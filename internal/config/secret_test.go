package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

func TestSecretFileIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	writeFile(t, path, "old")
	c := mustParse(t, minimal+`checkpoint: {redis: {addrs: ["r:1"], password: "a${file:`+path+`}z"}}`, nil)
	s := c.Checkpoint.Redis.Password
	for _, password := range []string{"old", "new"} {
		writeFile(t, path, password+"\n")
		if got, err := s.Reveal(t.Context()); err != nil || got != "a"+password+"z" {
			t.Errorf("have %q %v", got, err)
		}
	}
	s = mustParse(t, minimal+`checkpoint: {redis: {addrs: ["r:1"], password: "${file:`+path+`}"}}`, nil).Checkpoint.Redis.Password
	writeFile(t, path, "\n")
	if _, err := s.Reveal(t.Context()); cdc.Explain(err) != "secret file "+path+" is empty. Fix: write the secret into it." {
		t.Errorf("have %v", err)
	}
	testenv.Must(t, os.Remove(path))
	if _, err := s.Reveal(t.Context()); err == nil || err.Error() != "read secret file "+path+": no such file or directory" {
		t.Errorf("have %v", err)
	}
}

func TestUnsetSecret(t *testing.T) {
	s := mustParse(t, minimal, nil).Source.Postgres.Password
	if value, err := s.Reveal(t.Context()); value != "" || err != nil || !s.IsZero() || s.String() != "" {
		t.Errorf("%q %v %q", value, err, s)
	}
}

// everyWay returns all that a careless line of code could make of a value.
func everyWay(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p", "%c", "%10.3s"} {
		fmt.Fprintf(&b, verb+"\n", v)
	}
	testenv.Must(t, json.NewEncoder(&b).Encode(v))
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "value", v)
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "value", v)
	return b.String()
}

func TestSecretsStayHidden(t *testing.T) {
	c := mustParse(t, `
source: {postgres: {dsn: "postgres://relay:hunter2@db/orders", password: hunter2}}
kafka: {brokers: ["k:1"], sasl: {mechanism: PLAIN, username: u, password: hunter2}}
checkpoint: {redis: {mode: sentinel, master_name: m, addrs: ["r:1"], password: "hunter2", sentinel_password: "${env:P}"}}
`, map[string]string{"P": "hunter2"})
	type inside struct{ s config.Secret }
	var shown bytes.Buffer
	testenv.Must(t, c.Show(&shown))
	text := shown.String() + everyWay(t, c) + everyWay(t, *c) + everyWay(t, c.Source.Postgres.DSN) +
		everyWay(t, &c.Kafka.SASL.Password) + everyWay(t, inside{c.Kafka.SASL.Password})
	for _, leak := range []string{"hunter2", fmt.Sprintf("%x", "hunter2"), fmt.Sprintf("%X", "hunter2"), "104 117 110"} {
		if i := strings.Index(text, leak); i >= 0 {
			t.Errorf("leaked: %s", text[max(0, i-200):i+20])
		}
	}
	if !strings.Contains(text, "postgres://relay:***@db:5432/orders") {
		t.Error("the connection string is not shown at all")
	}
}

// TestPasswordBesideDSN holds what is put into the connection string to the parser that will read it.
func TestPasswordBesideDSN(t *testing.T) {
	for _, dsn := range []string{
		"postgres://relay@db/orders", "postgresql://relay:old@db,db2:5433/orders?sslmode=disable",
		"host=db user=relay password='old one' dbname=orders", "host=db user=relay dbname=orders ", "postgres://db?user=relay&dbname=orders",
	} {
		rapid.Check(t, func(t *rapid.T) {
			password := rapid.StringMatching(`[ -~é\t]{1,20}`).Draw(t, "password")
			p := config.Postgres{DSN: config.Literal(dsn), Password: config.Literal(password)}
			text, err := p.ConnString(t.Context())
			testenv.Must(t, err)
			parsed, err := pgconn.ParseConfig(text)
			testenv.Must(t, err)
			if parsed.Password != password || parsed.User != "relay" || parsed.Host != "db" || parsed.Database != "orders" {
				t.Errorf("%q became %q", password, parsed.Password)
			}
		})
	}
}

// TestErrorsHoldNoSecret puts secrets of all shapes where they belong, in files that are wrong in all
// kinds of ways, as they come and in quotes.
func TestErrorsHoldNoSecret(t *testing.T) {
	templates := []string{
		"source: {postgres: {dsn: %s}}\nkafka: {brokers: [k]}\n",
		"source: {postgres: {dsn: %s, slot: A}}\nkafka: {brokers: [\"k:1\"]}\nlog: 1\n",
		"source:\n  postgres:\n    dsn: %s\n    password: %[1]s\n    slotty: a\n",
		"source:\n  postgres:\n    password: %s\n    dsn: postgres://db/x\nkafka:\n  sasl:\n    password: %[1]s\n    mechanism: PLAINN\n",
		"source: {mysql: {dsn: %s}}\nkafka: {brokers: [k]}\n",
		"source:\n  mysql:\n    dsn: %s\n    password: %[1]s\n    slot: a\n",
		"checkpoint:\n  redis:\n    password: %s\n    sentinel_password: %[1]s\n   db: 1\n",
	}
	dsns := []string{
		"%s", "postgres://relay:%s@db/orders", "host=db password=%s port=x", "postgres://relay:%s@db:x/orders?sslmode=q", "host=db password='%s",
		"relay:%s@tcp(db:3306)/orders?timeout=x", "relay:%s@db:3306/orders", "mysql://relay:%s@db:x/orders", "relay@tcp(db)/?tls=%s",
	}
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[!-~]{1,3}[ -~]{6,20}[!-~]`).Draw(t, "secret")
		value := fmt.Sprintf(rapid.SampledFrom(dsns).Draw(t, "dsn"), secret)
		if rapid.Bool().Draw(t, "quoted") {
			value = strconv.Quote(value)
		}
		if rapid.Bool().Draw(t, "environment") {
			value = `"${env:SECRET}"`
		}
		text := fmt.Sprintf(rapid.SampledFrom(templates).Draw(t, "file"), value)
		c, err := config.Parse("x.yaml", []byte(text), environment(map[string]string{"SECRET": secret}))
		if err == nil {
			err = fmt.Errorf("%+v", c)
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("leaked in: %s", err)
		}
	})
}

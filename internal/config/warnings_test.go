package config_test

import (
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/config"
)

// warned is a file and how each of its warnings starts.
type warned struct {
	file string
	want []string
}

func onPostgres(dsn, rest string) string {
	return "source: {postgres: {dsn: \"" + dsn + "\"" + rest + "}}\nkafka: {brokers: [\"k1:9092\"]}\n"
}

func withSASL(brokers, rest string) string {
	return "source: {postgres: {dsn: \"host=/run user=u\"}}\nkafka: {brokers: [" + brokers + "], sasl: {username: u, password: p, mechanism: " + rest + "}\n"
}

func withRedis(addrs, rest string) string {
	return onPostgres("host=/run user=u", "") + "checkpoint: {redis: {addrs: [\"" + addrs + "\"]" + rest + "}}\n"
}

const (
	plainPostgres = "the connection to PostgreSQL at db:5432 does not require TLS that verifies the server"
	plainMySQL    = "the connection to the database at db:3307 does not require TLS that verifies the server"
)

func TestPlaintextToOtherMachinesIsWarnedOf(t *testing.T) {
	for _, w := range []warned{
		{onPostgres("postgres://u@db/o", ""), []string{plainPostgres}},
		{onPostgres("postgres://u@db/o?sslmode=disable", ""), []string{plainPostgres}},
		{onPostgres("postgres://u@localhost,db/o?sslmode=allow", ""), []string{plainPostgres}},
		{onPostgres("postgres://u@db/o?sslmode=require", ""), []string{plainPostgres}},
		{onPostgres("postgres://u@db/o?sslmode=verify-full", ""), nil},
		{onPostgres("postgres://u@db/o", ", tls: {}"), nil},
		{onPostgres("postgres://u@localhost/o", ""), nil},
		{onPostgres("postgres://u@127.1.2.3/o?sslmode=disable", ""), nil},
		{onPostgres("postgres://u@[::1]/o", ""), nil},
		{onPostgres("host=/run/postgresql user=u", ""), nil},
		{onPostgres("host=/run/postgresql,db user=u sslmode=require", ""), []string{plainPostgres}},
		{withSASL(`"127.0.0.1:1", "k1:9092"`, "SCRAM-SHA-512}"), []string{"the connection to Kafka at k1:9092 does not require TLS that verifies the server: anybody on the way can read the events"}},
		{withSASL(`"k1:9092"`, "PLAIN}"), []string{"the connection to Kafka at k1:9092 does not require TLS that verifies the server: anybody on the way can read the password of kafka.sasl"}},
		{withSASL(`"k1:9092"`, "PLAIN}, tls: {}"), nil},
		{withSASL(`"localhost:9092"`, "PLAIN}"), nil},
		{withRedis("r:6379", ""), []string{"the connection to Redis at r:6379 does not require TLS"}},
		{withRedis("r:6379", ", tls: {}"), nil},
		{withRedis("localhost:6379", ""), nil},
		{onMySQL("u@tcp(db:3307)/o", ""), []string{plainMySQL}},
		{onMySQL("u@tcp(db:3307)/o?tls=preferred", ""), []string{plainMySQL}},
		{onMySQL("u@tcp(db:3307)/o?tls=skip-verify", ""), []string{plainMySQL}},
		{onMySQL("u@tcp(db:3307)/o?tls=true", ""), nil},
		{onMySQL("u@tcp(db:3307)/o", ", tls: {}"), nil},
		{onMySQL("u@tcp(127.0.0.1)/o", ""), nil},
		{onMySQL("u@unix(/run/mysqld/mysqld.sock)/o", ""), nil},
	} {
		w.hold(t)
	}
}

func onMySQL(dsn, rest string) string {
	return "source: {mysql: {dsn: \"" + dsn + "\"" + rest + "}}\nkafka: {brokers: [\"k1:9092\"]}\ncheckpoint: {file: position}\n"
}

func TestInsecureSettingsAreWarnedOf(t *testing.T) {
	for _, w := range []warned{
		{onPostgres("postgres://u@db/o", ", tls: {insecure_skip_verify: true}"), []string{"source.postgres.tls.insecure_skip_verify is on"}},
		{withRedis("r:1", ", tls: {insecure_skip_verify: true}"), []string{"checkpoint.redis.tls.insecure_skip_verify is on"}},
		{
			onMySQL("u@tcp(db)/o", ", unsafe_sync_binlog: true, tls: {insecure_skip_verify: true}"),
			[]string{"source.mysql.tls.insecure_skip_verify is on", "source.mysql.unsafe_sync_binlog is on"},
		},
	} {
		w.hold(t)
	}
}

func (w warned) hold(t *testing.T) {
	t.Helper()
	have := mustParse(t, w.file, nil).Warnings()
	if len(have) != len(w.want) {
		t.Errorf("%s: have %q, want %q", w.file, have, w.want)
		return
	}
	for i, one := range have {
		if one == (config.Warning{}) || one.Fix == "" || !strings.HasPrefix(one.Text, w.want[i]) {
			t.Errorf("%s: have %q, want %q", w.file, one, w.want[i])
		}
	}
}

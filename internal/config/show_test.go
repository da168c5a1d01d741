package config_test

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

func show(t *testing.T, c *config.Config) string {
	t.Helper()
	var b bytes.Buffer
	testenv.Must(t, c.Show(&b))
	return b.String()
}

func TestShow(t *testing.T) {
	golden(t, "testdata/show-minimal.yaml", []byte(show(t, mustParse(t, minimal, nil))))
	golden(t, "testdata/show-mysql.yaml", []byte(show(t, mustParse(t, minimalMySQL, nil))))
}

// TestShowReadsBack holds what is shown to be a configuration itself, the same one but for its secrets.
func TestShowReadsBack(t *testing.T) {
	for name, file := range map[string][2]string{
		"minimal":       {minimal},
		"example":       {uncommented(t, example(t, examplePostgres)), "host=db user=relay password=x dbname=orders"},
		"MySQL":         {minimalMySQL},
		"MySQL example": {uncommented(t, example(t, exampleMySQL)), "mysql://relay:x@db/orders"},
	} {
		shown := show(t, mustParse(t, file[0], map[string]string{"DATABASE_URL": file[1]}))
		if again := show(t, mustParse(t, shown, nil)); again != shown {
			t.Errorf("%s: %s", name, firstDifference([]byte(shown), []byte(again)))
		}
		valid(t, compileSchema(t), shown)
	}
}

func TestShownDSN(t *testing.T) {
	for dsn, want := range map[string]string{
		"postgres://relay:pw@db/orders":                                            "postgres://relay:***@db:5432/orders",
		"postgres://relay@db:5433/orders?sslmode=disable":                          "postgres://relay@db:5433/orders?sslmode=disable",
		"postgres://relay:pw@a:1,b:2/orders?sslmode=allow":                         "postgres://relay:***@a:1,b:2/orders?sslmode=allow",
		"host=/run/postgresql user=relay password=pw":                              "postgres://relay:***@/relay?host=/run/postgresql&port=5432",
		"host=::1 user='re lay' dbname='or/ders' password='p w'":                   "postgres://re%20lay:***@[::1]:5432/or%2Fders",
		"postgres://db/orders?user=relay&password=pw":                              "postgres://relay:***@db:5432/orders",
		"postgres://relay@db/orders?connect_timeout=5&sslmode=require&password=pw": "postgres://relay:***@db:5432/orders?connect_timeout=5&sslmode=require",
		`host=db user=relay connect_timeout = 5 application_name='it\'s us' pw=x`:  "postgres://relay@db:5432/relay?application_name=it%27s+us&connect_timeout=5",
		"host=db user=relay password=p sslpassword=pw sslmode=verify-full":         "postgres://relay:***@db:5432/relay?sslmode=verify-full",
		"postgres://relay@a,b/orders?target_session_attrs=primary":                 "postgres://relay@a:5432,b:5432/orders?target_session_attrs=primary",
	} {
		c := mustParse(t, strings.ReplaceAll("source: {postgres: {dsn: \"DSN\"}}\nkafka: {brokers: [\"k:1\"]}", "DSN", strings.ReplaceAll(dsn, `\`, `\\`)), nil)
		if got := c.Source.Postgres.DSN.String(); got != want {
			t.Errorf("%s: have %s, want %s", dsn, got, want)
		}
	}
}

// TestShownTLSSection: the section says all of TLS, so the connection string that is shown says nothing of it.
func TestShownTLSSection(t *testing.T) {
	c := mustParse(t, "source: {postgres: {dsn: \"postgres://relay@db/orders\", tls: {server_name: pg}}}\nkafka: {brokers: [\"k:1\"]}", nil)
	if got := c.Source.Postgres.DSN.String(); got != "postgres://relay@db:5432/orders" {
		t.Errorf("have %s", got)
	}
	if shown := show(t, c); !strings.Contains(shown, "    tls:\n      server_name: pg\n") {
		t.Errorf("have %s", shown)
	}
}

func TestDefaultNames(t *testing.T) {
	long := strings.Repeat("Q", 63)
	for database, want := range map[string][2]string{
		"orders":  {"cdc_relay_orders", "cdc-relay:{orders}"},
		"Or-d.rs": {"cdc_relay_or_d_rs", "cdc-relay:{Or-d.rs}"},
		"a{b}":    {"cdc_relay_a_b_", "cdc-relay:{a_b_}"},
		"zür":     {"cdc_relay_z_r", "cdc-relay:{zür}"},
		long:      {"cdc_relay_" + strings.Repeat("q", 53), "cdc-relay:{" + long + "}"},
	} {
		c := mustParse(t, "source: {postgres: {dsn: \"host=db user=u dbname="+database+"\"}}\n"+
			"kafka: {brokers: [\"k:1\"]}\ncheckpoint: {redis: {addrs: [\"r:1\"]}}\n", nil)
		p := c.Source.Postgres
		if p.Slot != want[0] || p.Publication != want[0] || c.Checkpoint.Redis.Key != want[1] {
			t.Errorf("%s: %s %s", database, p.Slot, c.Checkpoint.Redis.Key)
		}
	}
}

func TestColumnsMap(t *testing.T) {
	c := mustParse(t, minimal+`tables: [{name: app.outbox, columns: {event_id: id, event_type: type, payload: body, tenant_id: t}}]`, nil)
	m := c.Tables[0].Columns.Parts()
	want := map[string]outbox.Part{"event_id": outbox.Of("id"), "event_type": outbox.Of("type"), "payload": outbox.Of("body"), "tenant_id": outbox.Of("t")}
	if !maps.Equal(m, want) {
		t.Errorf("have %v", m)
	}
	if (*config.Columns)(nil).Parts() != nil {
		t.Error("no columns are not none")
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]config.Size{"1": 1, "1B": 1, "64KiB": 64 << 10, "8 MiB": 8 << 20, "1GiB": 1 << 30, "2KB": 2000, "2MB": 2e6, "2GB": 2e9} {
		if got, err := config.ParseSize(text); got != want || err != nil {
			t.Errorf("%s: %d %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "MiB", "1.5MiB", "8mib", "9223372036854775807KiB", "1TiB"} {
		if got, err := config.ParseSize(text); err == nil {
			t.Errorf("%s: %d", text, got)
		}
	}
}

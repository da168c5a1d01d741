package config_test

import (
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/config"
)

const minimal = `
source: {postgres: {dsn: "postgres://relay:s3cret@db:5433/Orders-EU"}}
kafka: {brokers: ["k1:9092", "k2:9092"]}
`

func environment(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

func mustParse(t *testing.T, text string, vars map[string]string) *config.Config {
	t.Helper()
	c, err := config.Parse("cdc-relay.yaml", []byte(text), environment(vars))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestMinimal(t *testing.T) {
	c := mustParse(t, minimal, nil)
	dsn, err := c.Source.Postgres.ConnString()
	if err != nil || dsn != "postgres://relay:s3cret@db:5433/Orders-EU" {
		t.Errorf("dsn %q %v", dsn, err)
	}
	p := c.Source.Postgres
	if p.Slot != "cdc_relay_orders_eu" || p.Publication != p.Slot || p.Failover != config.FailoverAuto {
		t.Errorf("postgres %+v", p)
	}
	if p.StatusInterval != 3*time.Second || c.ShutdownTimeout != 20*time.Second || c.Retry.Max != time.Minute {
		t.Errorf("durations %+v", c)
	}
	if c.Window.Events != 32768 || c.Window.Bytes != 8<<20 || c.Kafka.MaxMessageBytes != 1048588 {
		t.Errorf("bounds %+v", c)
	}
	if len(c.Tables) != 1 || c.Tables[0].Name != "public.outbox" || c.Tables[0].Columns != nil {
		t.Errorf("tables %+v", c.Tables)
	}
	if c.Kafka.TLS != nil || c.Kafka.SASL != nil || c.Topics.Create != nil || c.Checkpoint.Redis != nil {
		t.Error("an optional section appeared by itself")
	}
	if c.Errors.Rejected != config.PolicyStop || c.Errors.OnStop != config.OnStopExit || c.HTTP.Listen != ":9464" {
		t.Errorf("choices %+v", c)
	}
}

package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/config"
)

// What differs is named, also in a list, a section that is absent and a secret. Another notation is no difference, nor is the
// content of a secret file, which is read at every connect.
func TestChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	parse := func(text, secret string) *config.Config {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "secret"), []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Parse(filepath.Join(dir, "c.yaml"), []byte(text), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const before = `
source: {postgres: {dsn: "postgres://relay@db/orders", password: one}}
kafka: {brokers: ["a:9092", "b:9092"], sasl: {mechanism: PLAIN, username: u, password: "${file:secret}"}}
routes: [{topic: t}]
`
	const after = `
source: {postgres: {dsn: "postgres://relay@db/orders", password: two}}
kafka: {brokers: ["a:9092", "c:9092"], sasl: {mechanism: PLAIN, username: u, password: "${file:secret}"}}
routes: [{topic: t, match: {aggregate_type: x}}]
retention: {keep: 30d}
log: {level: info}
`
	want := []string{
		"kafka.brokers", "retention.ahead", "retention.batch", "retention.drop", "retention.every", "retention.keep", "retention.partitions", "routes",
		"source.postgres.password",
	}
	a, b := parse(before, "one"), parse(after, "two")
	for _, got := range [][]string{a.Changed(b), b.Changed(a)} {
		if !slices.Equal(got, want) {
			t.Errorf("changed: %q, want %q", got, want)
		}
	}
	if got := a.Changed(parse(before, "two")); len(got) > 0 {
		t.Errorf("changed: %q, want nothing", got)
	}
}

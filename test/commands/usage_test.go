package commands

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// An error on the command line is one line and exit code 2.
func TestUsage(t *testing.T) {
	t.Parallel()
	session(t, newSite(t), "usage.txt",
		"chek", "confg", "config vaildate", "config now", "run now", "run --drry-run", "setup --ahead x", "repair --overlap 5q", "run --config", "version -o xml", "position set",
		"schema print --dialect oracle", "schema print --payload blob", "schema print --table a.b.c", "status --url relay-1:9464", "run --start-from earliest", "status --ca nowhere.pem")
}

// Every command's help has an example and needs no configuration.
func TestHelp(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.config = "not: a configuration\n"
	seen := 0
	var visit func(path ...string)
	visit = func(path ...string) {
		r := s.run(append(path, "--help")...)
		seen++
		if r.code != 0 || r.stderr != "" {
			t.Errorf("%s --help: %s", path, r)
		}
		_, list, group := strings.Cut(r.stdout, "Available Commands:\n")
		if !group && !strings.Contains(r.stdout, "Examples:") {
			t.Errorf("%s --help has no example:\n%s", path, r.stdout)
		}
		list, _, _ = strings.Cut(list, "\n\n")
		for _, line := range regexp.MustCompile(`(?m)^  (\S+)`).FindAllStringSubmatch(list, -1) {
			if line[1] != "help" && line[1] != "completion" {
				visit(append(slices.Clip(path), line[1])...)
			}
		}
	}
	visit()
	if seen < 15 {
		t.Errorf("only %d commands were seen", seen)
	}
	for _, command := range []string{"version", "completion bash", "completion zsh", "config schema", "schema print"} {
		if r := s.run(strings.Fields(command)...); r.code != 0 || r.stdout == "" || r.stderr != "" {
			t.Errorf("%s: %s", command, r)
		}
	}
}

// route shows the record of a row without any server.
func TestRoute(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.config = `source: {postgres: {dsn: "postgres://u@localhost/shop"}}
tables: [{name: public.outbox}, {name: app.events, columns: {event_id: id, event_type: kind, payload: body}},
  {name: app.typed, format: cloudevents-json, columns: {event_id: id, event_type: kind}, headers: [{name: shop, column: shop}], value: [{name: n, column: n}, {name: d, column: d}]}]
routes:
- {match: {aggregate_type: "Ord.*"}, topic: "orders.${tenant_id}"}
- {match: {aggregate_type: "Ord.*", tenant_id: "t-1"}, topic: never}
- {match: {event_type: "Paid"}, topic: paid}
kafka: {brokers: ["localhost:9092"]}
`
	session(t, s, "route.txt",
		`route --row {"aggregate_type":"Order","aggregate_id":"o-1","event_type":"OrderPlaced","tenant_id":"t-1","occurred_at":"2026-11-22T10:00:00Z","payload":{"total":12}}`,
		`route --row {"topic":"audit","aggregate_type":"Order","aggregate_id":"o-1","event_type":"OrderPlaced"} -o json`,
		`route --table app.events --row {"id":7,"kind":"Paid","body":"text"}`,
		`route --table app.typed --row {"id":"7","kind":"Paid","n":1.50,"d":{"a":"b"}}`,
		`route --row {"aggregate_type":"Order","aggregate_id":"o-1","event_type":"OrderPlaced"}`,
		`route --row {"aggregate_type":"Invoice","aggregate_id":"i-1","event_type":"Sent"}`,
		`route --row {"aggregate_type":"Order","event_type":"OrderPlaced"}`,
		`route --row [1]`, `route`, `route --table orders --row {}`)
	s.config = "topic_prefix: try.\n" + s.config
	session(t, s, "route_prefix.txt",
		`route --row {"topic":"audit","aggregate_type":"Order","aggregate_id":"o-1","event_type":"OrderPlaced"}`,
		`route --row {"event_type":"Paid","aggregate_type":"Invoice","aggregate_id":"i-1"}`)
}

// check -o json has the same findings as the text.
func TestCheckJSON(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.run("check", "-o", "json")
	var report struct {
		OK       bool
		Findings []struct{ Status, Subject, Text, Fix string }
	}
	testenv.Must(t, json.Unmarshal([]byte(r.stdout), &report))
	if r.code != 3 || report.OK {
		t.Errorf("exit %d, ok %v", r.code, report.OK)
	}
	text := s.run("check").stdout
	for _, f := range report.Findings {
		if line := f.Subject + ": " + f.Text; !strings.Contains(text, line) || !strings.Contains(text, f.Fix) {
			t.Errorf("%q is not in the text:\n%s", line, text)
		}
		if f.Status == "fail" && f.Fix == "" {
			t.Errorf("%s has no fix", f.Subject)
		}
	}
	if lines := strings.Count(text, "\n") - 2; lines != len(report.Findings) {
		t.Errorf("%d findings, %d lines", len(report.Findings), lines)
	}
}

// No command prints a secret.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const secret = "geheim-4711"
	s := newSite(t)
	s.env = []string{"SECRET=" + secret}
	s.replace("postgres@", "postgres:${env:SECRET}@").replace("kafka: {", "kafka: {sasl: {mechanism: PLAIN, username: u, password: '${env:SECRET}'}, ").
		replace("redis: {", "redis: {password: '${env:SECRET}', ")
	s.config = strings.Replace(s.config, "topics: {create: {partitions: 3, replication_factor: 1}}\n", "", 1)
	for _, command := range []string{"config show", "config validate", "setup", "check", "check -o json", "position show", "setup --print", "run", "teardown"} {
		if r := s.raw("", strings.Fields(command)...); strings.Contains(r.stdout+r.stderr, secret) {
			t.Errorf("%s shows it: %s", command, r)
		}
	}
	if r := s.run("config", "show"); r.code != 0 || strings.Count(r.stdout, "***") != 3 {
		t.Errorf("config show: %s", r)
	}
}

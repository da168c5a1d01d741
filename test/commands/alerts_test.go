package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// A real Prometheus scrapes relays. The alerts that can be provoked fire, as soon as they are due without their waiting times, and no
// query of the dashboard is without an answer.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	queries := dashboard(t)
	onAll(t, func(s *site) {
		s.config += "errors: {unroutable: dead_letter, too_large: dead_letter, malformed: stop, on_stop: park}\nretention: {}\n"
		s.setup().eventAt(9, "'2999-01-01'") // of a day without a partition
		relay := s.start()
		base := relay.leading()
		_, metrics, err := get(s.t, base+"/metrics")
		testenv.Must(s.t, err)
		lint := testenv.Tool(s.t, "promtool", "check", "metrics")
		lint.Stdin = strings.NewReader(metrics)
		if out, err := lint.CombinedOutput(); err != nil || len(out) > 0 {
			s.t.Errorf("promtool check metrics: %v\n%s", err, out)
		}
		wantDocumented(s.t, metrics)
		p := s.prometheus(base, "--enable-feature=native-histograms")
		p.awaitAlerts("CdcRelayDefaultPartitionRows")
		s.event(1, "a", "")
		s.published(base, 1)
		s.event(2, "b", "no topic, this")
		p.awaitAlerts("CdcRelayDefaultPartitionRows", "CdcRelayDeadLetters")
		for record, want := range map[string]string{
			"cdc_relay:leader:max": "1", "cdc_relay:standby:sum": "0", "cdc_relay:source_lag_seconds:max": "0", "cdc_relay:dead_letters:max": "1",
		} {
			p.await(record+" of "+s.name, func() bool { return p.value(record+`{database="`+s.name+`"}`) == want })
		}
		testenv.Must(s.t, kafka.CreateTopic(s.t.Context(), s.name+"-narrow", 1, map[string]string{"max.message.bytes": "100"}))
		s.event(3, "c", s.name+"-narrow")
		p.await("answers to all queries of the dashboard", func() bool { return len(p.empty(queries)) == 0 })
		if s.t.Failed() {
			s.t.Fatalf("no answer to %q", p.empty(queries))
		}
		s.sql("INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, headers, occurred_at) " +
			"SELECT event_id, aggregate_type, 'c', event_type, '[1]', occurred_at FROM outbox WHERE aggregate_id = 'a'") // malformed
		p.awaitAlerts("CdcRelayDefaultPartitionRows", "CdcRelayDeadLetters", "CdcRelayStopped", "CdcRelayNoLeader")
		relay.signal(syscall.SIGKILL)
		p.awaitAlerts("CdcRelayNoLeader", "CdcRelayDeadLetters") // what it knew counts for 5 minutes
	})
}

// wantDocumented fails for a metric that docs/metrics.md does not name.
func wantDocumented(t *testing.T, metrics string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	testenv.Must(t, err)
	for _, m := range regexp.MustCompile(`(?m)^# TYPE cdc_relay_(\w+)`).FindAllStringSubmatch(metrics, -1) {
		if !regexp.MustCompile("`" + m[1] + "[`{]").Match(page) {
			t.Errorf("docs/metrics.md does not name the metric %s", m[1])
		}
	}
}

// A server that asks for them gets native histograms, and exemplars with the events' trace IDs. This version of Prometheus takes exemplars of
// classic buckets only.
func TestNativeHistogramsAndExemplars(t *testing.T) {
	t.Parallel()
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	s := newSite(t).setup()
	s.replace("http: {", "http: {classic_histograms: true, ")
	base := s.start().leading()
	p := s.prometheus(base, "--enable-feature=native-histograms,exemplar-storage")
	s.sql("INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, headers, payload, occurred_at) VALUES ('" + eventID(1) +
		"', 'Order', '42', 'order.placed', '{\"traceparent\": \"00-" + trace + "-00f067aa0ba902b7-01\"}', '{}', now())")
	s.published(base, 1)
	for _, name := range []string{"commit_to_ack_seconds", "produce_seconds"} {
		p.await("a native histogram "+name, func() bool { return p.value("histogram_count(cdc_relay_"+name+")") == "1" })
		if quantile := p.value("histogram_quantile(0.99, cdc_relay_" + name + ")"); quantile == "" || quantile == "NaN" {
			t.Errorf("the quantile of %s is %q", name, quantile)
		}
	}
	p.await("the exemplar", func() bool {
		var series []struct {
			SeriesLabels map[string]string
			Exemplars    []struct{ Labels map[string]string }
		}
		p.ask("/api/v1/query_exemplars?query=cdc_relay_commit_to_ack_seconds&start=0&end=99999999999", &series)
		return len(series) == 1 && series[0].Exemplars[0].Labels["trace_id"] == trace
	})
}

// dashboard returns the queries of the dashboard.
func dashboard(t *testing.T) (queries []string) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/helm/cdc-relay/files/dashboard.json")
	testenv.Must(t, err)
	var board struct {
		Panels []struct {
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	testenv.Must(t, json.Unmarshal(text, &board))
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			queries = append(queries, target.Expr)
		}
	}
	return queries
}

// empty are the queries without an answer, but those that only another database can answer.
func (p *prom) empty(queries []string) (empty []string) {
	foreign := regexp.MustCompile("cdc_relay_(slot_|source_lag_bytes|events_filtered)")
	if p.mysql == nil {
		foreign = regexp.MustCompile("cdc_relay_binlog_")
	}
	for _, q := range queries {
		if foreign.MatchString(q) {
			continue
		}
		var data struct {
			Result []any `json:"result"`
		}
		p.ask("/api/v1/query?query="+url.QueryEscape(strings.NewReplacer("$database", p.name, "$cluster", ".*", "$namespace", ".*", "$job", ".*", "$__rate_interval", "10s").Replace(q)), &data)
		if len(data.Result) == 0 {
			empty = append(empty, q)
		}
	}
	return empty
}

// prom is a Prometheus server.
type prom struct {
	*site

	base string
}

// prometheus starts a server that scrapes one relay.
func (s *site) prometheus(target string, flags ...string) *prom {
	s.t.Helper()
	dir := s.t.TempDir()
	address, release, err := testenv.ReservePort(s.t.Context())
	testenv.Must(s.t, err)
	s.t.Cleanup(func() { _ = release() })
	rules, err := os.ReadFile("../../deploy/helm/cdc-relay/files/rules.yaml")
	testenv.Must(s.t, err)
	at, err := url.Parse(target)
	testenv.Must(s.t, err)
	for name, text := range map[string]string{
		"rules.yaml":      regexp.MustCompile(`(?m)^ *for: .*\n`).ReplaceAllString(string(rules), ""),
		"prometheus.yaml": fmt.Sprintf("global: {scrape_interval: 500ms, evaluation_interval: 500ms}\nrule_files: [rules.yaml]\nscrape_configs: [{job_name: relays, static_configs: [{targets: [%q]}]}]\n", at.Host),
	} {
		testenv.Must(s.t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	flags = append(flags, "--config.file="+dir+"/prometheus.yaml", "--storage.tsdb.path="+dir+"/data", "--web.listen-address="+address)
	cmd := testenv.Tool(s.t, "prometheus", flags...)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	testenv.Must(s.t, cmd.Start())
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if s.t.Failed() {
			s.t.Logf("Prometheus:\n%s", &log)
		}
	})
	return &prom{s, "http://" + address}
}

// ask returns data of an answer, which is left as it is if there is none yet.
func (p *prom) ask(path string, data any) {
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.base+path, http.NoBody)
	testenv.Must(p.t, err)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	_ = json.NewDecoder(resp.Body).Decode(&struct {
		Data any `json:"data"`
	}{data})
}

// value is that of an expression with one sample; "" if there is none.
func (p *prom) value(expr string) string {
	var data struct {
		Result []struct {
			Value []any `json:"value"`
		} `json:"result"`
	}
	p.ask("/api/v1/query?query="+url.QueryEscape(expr), &data)
	if len(data.Result) != 1 {
		return ""
	}
	return fmt.Sprint(data.Result[0].Value[1])
}

func (p *prom) await(what string, ok func() bool) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	if err := cdctest.Await(ctx, what, func(context.Context) (bool, error) { return ok(), nil }); err != nil {
		p.t.Error(err)
	}
}

// awaitAlerts waits until these fire, and no others.
func (p *prom) awaitAlerts(want ...string) {
	p.t.Helper()
	slices.Sort(want)
	var fires []string
	p.await(strings.Join(want, ", "), func() bool {
		var data struct {
			Alerts []struct {
				Labels map[string]string `json:"labels"`
				State  string            `json:"state"`
			} `json:"alerts"`
		}
		p.ask("/api/v1/alerts", &data)
		fires = nil
		for _, a := range data.Alerts {
			if a.State == "firing" && a.Labels["database"] == p.name {
				fires = append(fires, a.Labels["alertname"])
			}
		}
		slices.Sort(fires)
		return slices.Equal(fires, want)
	})
	if p.t.Failed() {
		p.t.Fatalf("%v fire", fires)
	}
}

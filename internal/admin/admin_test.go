package admin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/cdc-relay/cdc-relay/internal/admin"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// example has a value in every field, so that a field that is not served is noticed.
func example() admin.Status {
	lag, safe := int64(4096), int64(1<<30)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return admin.Status{
		State: "leading", Since: at, Connected: true, Stalled: true,
		Source:     admin.Source{SystemID: "7412345678901234567", Database: "orders", Slot: "cdc_relay_orders", Timeline: 1},
		Positions:  admin.Positions{Received: "0000000000000004", Acked: "0000000000000003", Saved: "0000000000000002", Confirmed: "0000000000000001"},
		Lag:        admin.Lag{Seconds: 0.25, Bytes: &lag},
		InFlight:   admin.InFlight{Events: 12, Bytes: 3456},
		Checkpoint: admin.Checkpoint{Generation: 3, Sequence: 1842, SavedAt: at, LastEventID: "0198"},
		Slot:       &cdc.SlotStatus{Status: "reserved", RetainedBytes: 16 << 20, SafeBytes: &safe},
		Leader:     "connection 7 of the server (from 10.0.0.2:40112) holds the lock",
		Problems:   []admin.Problem{{With: "kafka", Server: "k1:9092", Since: at, Text: "connection refused"}},
		LastError:  &admin.Error{Text: "kafka was away", At: at, Past: true},
		Version:    "v0.1.0", Revision: "abc", StartedAt: at,
	}
}

type relay struct {
	mu          sync.Mutex
	ready, live error
	reg         *prometheus.Registry
}

func (r *relay) becomes(ready, live error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready, r.live = ready, live
}

func (r *relay) says(of *error) func() error {
	return func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		return *of
	}
}

func newRelay() *relay {
	r := &relay{reg: prometheus.NewRegistry()}
	published := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cdc_relay_events_published_total", Help: "h"}, []string{"topic"})
	published.WithLabelValues("a").Add(2)
	published.WithLabelValues("b").Add(3)
	others := prometheus.NewCounter(prometheus.CounterOpts{Name: "process_things_total", Help: "h"})
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "cdc_relay_leader", Help: "h"})
	r.reg.MustRegister(published, others, gauge)
	return r
}

func (r *relay) options() admin.Options {
	return admin.Options{
		Listen: "127.0.0.1:0", Gatherer: r.reg, TopicLabel: true, Status: example,
		Ready: r.says(&r.ready), Live: r.says(&r.live),
	}
}

// serve runs a server for the test's time and returns its host:port.
func serve(t *testing.T, o admin.Options) string {
	t.Helper()
	return start(t, o).Addr().String()
}

func start(t *testing.T, o admin.Options) *admin.Server {
	t.Helper()
	s, _, _ := startWith(t, o, slog.DiscardHandler)
	return s
}

// startWith also returns what begins the shutdown, and what waits for its end.
func startWith(t *testing.T, o admin.Options, log slog.Handler) (s *admin.Server, stop, wait func()) {
	t.Helper()
	s, err := admin.New(t.Context(), o, slog.New(log))
	testenv.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	wait = sync.OnceFunc(func() {
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(wait)
	t.Cleanup(stop)
	return s, stop, wait
}

// get sends a request on its own connection.
func get(t *testing.T, url string) (status int, contentType, body string) {
	t.Helper()
	r := send(t, http.DefaultClient, http.MethodGet, url, "", nil)
	return r.code, r.header.Get("Content-Type"), r.body
}

func TestHealth(t *testing.T) {
	r := newRelay()
	base := "http://" + serve(t, r.options())
	for path, want := range map[string]string{"/livez": "ok\n", "/readyz": "ok\nkafka, since 2026-01-02T03:04:05Z: connection refused\n"} {
		if code, _, body := get(t, base+path); code != http.StatusOK || body != want {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	r.becomes(errors.New("relay is starting"), errors.New("nothing was acknowledged for 2m"))
	for path, want := range map[string]string{"/livez": "nothing was acknowledged for 2m\n", "/readyz": "relay is starting\n"} {
		if code, _, body := get(t, base+path); code != http.StatusServiceUnavailable || body != want {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
}

func TestMetrics(t *testing.T) {
	base := "http://" + serve(t, newRelay().options())
	code, kind, body := get(t, base+"/metrics")
	if code != http.StatusOK || !strings.HasPrefix(kind, "text/plain") || !strings.Contains(body, `cdc_relay_events_published_total{topic="b"} 3`) {
		t.Errorf("%d %s\n%s", code, kind, body)
	}
	r := send(t, http.DefaultClient, http.MethodGet, base+"/metrics", "", map[string]string{"Accept": "application/openmetrics-text; version=1.0.0"})
	if kind := r.header.Get("Content-Type"); !strings.HasPrefix(kind, "application/openmetrics-text") || !strings.HasSuffix(r.body, "# EOF\n") {
		t.Errorf("%s\n%s", kind, r.body)
	}
}

// What is served depends on two settings. What the page alone reads never is.
func TestMetricsThatAreServed(t *testing.T) {
	r := newRelay()
	opts := prometheus.HistogramOpts{Name: "cdc_relay_produce_seconds", Help: "h", Buckets: []float64{1}, NativeHistogramBucketFactor: 1.1}
	produce := prometheus.NewHistogram(opts)
	produce.Observe(.5)
	failed := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cdc_relay_publish_errors_total", Help: "h"}, []string{"reason", "topic"})
	for _, labels := range [][]string{{"x", "a"}, {"x", "b"}, {"y", "b"}} {
		failed.WithLabelValues(labels...).Inc()
	}
	r.reg.MustRegister(produce, failed, prometheus.NewGauge(prometheus.GaugeOpts{Name: "cdc_relay_page_things", Help: "h"}))
	for name, tt := range map[string]struct {
		classic, topic bool
		want           string
	}{
		"as by default": {false, true, `events_published_total{topic="a"} 2, events_published_total{topic="b"} 3, leader 0, produce_seconds_bucket{le="+Inf"} 1, ` +
			`produce_seconds_sum 0.5, produce_seconds_count 1, publish_errors_total{reason="x",topic="a"} 1, publish_errors_total{reason="x",topic="b"} 1, publish_errors_total{reason="y",topic="b"} 1`},
		"classic": {true, false, `events_published_total 5, leader 0, produce_seconds_bucket{le="1"} 1, produce_seconds_bucket{le="+Inf"} 1, ` +
			`produce_seconds_sum 0.5, produce_seconds_count 1, publish_errors_total{reason="x"} 2, publish_errors_total{reason="y"} 1`},
	} {
		t.Run(name, func(t *testing.T) {
			opts := r.options()
			opts.ClassicHistograms, opts.TopicLabel = tt.classic, tt.topic
			base := "http://" + serve(t, opts)
			for range 2 { // the first does not change the second
				_, _, body := get(t, base+"/metrics")
				var got []string
				for line := range strings.Lines(body) {
					if sample, ours := strings.CutPrefix(line, "cdc_relay_"); ours {
						got = append(got, strings.TrimSpace(sample))
					}
				}
				if text := strings.Join(got, ", "); text != tt.want {
					t.Errorf("got  %s\nwant %s", text, tt.want)
				}
			}
		})
	}
}

func TestStatus(t *testing.T) {
	r := newRelay()
	r.becomes(errors.New("relay is starting"), nil)
	addr := serve(t, r.options())
	got, err := admin.Fetch(t.Context(), "http://"+addr, nil)
	testenv.Must(t, err)
	want := example()
	want.NotReady = "relay is starting"
	want.Counters = map[string]float64{"events_published": 5}
	if got.Verdict == nil || got.Verdict.State != admin.NotPublishing || got.Now == nil || got.Instance == "" {
		t.Errorf("%+v, %+v", got.Verdict, got.Now)
	}
	got.Verdict, got.Now, got.Instance = nil, nil, ""
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	r.becomes(nil, nil)
	if got, err = admin.Fetch(t.Context(), "http://"+addr+"/status", nil); err != nil || !got.Ready || got.NotReady != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Clients depend on the names.
func TestStatusFieldNames(t *testing.T) {
	_, kind, body := get(t, "http://"+serve(t, newRelay().options())+"/status")
	var fields map[string]any
	if err := json.Unmarshal([]byte(body), &fields); err != nil || kind != "application/json" {
		t.Fatalf("%s: %v", kind, err)
	}
	for _, path := range []string{
		"state", "since", "ready", "connected", "stalled", "version", "revision", "started_at",
		"source.system_id", "source.database", "source.slot", "source.timeline",
		"positions.received", "positions.acked", "positions.saved", "positions.confirmed",
		"lag.seconds", "lag.bytes", "in_flight.events", "in_flight.bytes",
		"checkpoint.generation", "checkpoint.sequence", "checkpoint.saved_at", "checkpoint.last_event_id",
		"slot.status", "slot.retained_bytes", "slot.safe_bytes", "leader", "problems", "last_error.text", "last_error.at", "last_error.past",
		"counters.events_published",
		"verdict.state", "verdict.level", "verdict.title", "verdict.since", "now.lag", "instance",
	} {
		var at any = fields
		for name := range strings.SplitSeq(path, ".") {
			object, _ := at.(map[string]any)
			at = object[name]
		}
		if at == nil {
			t.Errorf("%s is missing in %s", path, body)
		}
	}
}

func TestPaths(t *testing.T) {
	o := newRelay().options()
	base := "http://" + serve(t, o)
	o.Profile = true
	profiled := "http://" + serve(t, o)
	for _, c := range []struct {
		url  string
		code int
	}{
		{base + "/", http.StatusOK},
		{base + "/other", http.StatusNotFound},
		{base + "/debug/pprof/", http.StatusNotFound},
		{profiled + "/debug/pprof/", http.StatusOK},
		{profiled + "/debug/pprof/heap?debug=1", http.StatusOK},
		{profiled + "/debug/pprof/cmdline", http.StatusOK},
	} {
		if code, _, _ := get(t, c.url); code != c.code {
			t.Errorf("%s: %d, want %d", c.url, code, c.code)
		}
	}
	large := dial(t, strings.TrimPrefix(base, "http://"), "GET /status HTTP/1.1\r\nHost: relay\r\nX: "+strings.Repeat("a", 40<<10)+"\r\n\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(large), nil)
	testenv.Must(t, err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 40 KiB: %s", answer.Status)
	}
}

func TestListenErrors(t *testing.T) {
	var config net.ListenConfig
	taken, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	testenv.Must(t, err)
	defer taken.Close()
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	for addr, want := range map[string][]string{
		taken.Addr().String():    {taken.Addr().String(), "address already in use", "set http.listen"},
		"9464":                   {`http.listen is "9464"`, "missing port"},
		"127.0.0.1:none":         {`http.listen is "127.0.0.1:none"`, "unknown port"},
		"127.0.0.1:70000":        {`http.listen is "127.0.0.1:70000"`, "invalid port"},
		"host.invalid:9464":      {`http.listen is "host.invalid:9464"`},
		"192.0.2.1:9464":         {"cannot assign requested address", ":port for all addresses"},
		"::1:9464":               {`http.listen is "::1:9464"`, "too many colons"},
		"127.0.0.1:" + port + "": {"127.0.0.1:" + port},
	} {
		o := newRelay().options()
		o.Listen = addr
		s, err := admin.New(t.Context(), o, slog.New(slog.DiscardHandler))
		if err == nil {
			s.Close()
		}
		wantMistake(t, addr, err, want)
	}
	o := newRelay().options()
	o.HealthListen = taken.Addr().String()
	_, err = admin.New(t.Context(), o, slog.New(slog.DiscardHandler))
	wantMistake(t, o.HealthListen, err, []string{"http.health_listen is", "address already in use", "set http.health_listen"})
}

func wantMistake(t *testing.T, what string, err error, want []string) {
	t.Helper()
	var stop *cdc.StopError
	if !errors.As(err, &stop) || stop.Class != cdc.ClassConfig {
		t.Errorf("%s: want a stop for the configuration, got %v", what, err)
		return
	}
	for _, part := range want {
		if !strings.Contains(cdc.Explain(err), part) {
			t.Errorf("%s: %q does not say %q", what, err, part)
		}
	}
	if strings.Contains(cdc.Explain(err), "\n") {
		t.Errorf("%s: %q is more than one line", what, err)
	}
}

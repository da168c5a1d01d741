package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

func (o Options) handler(past *recorder, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	a := &api{o: o, past: past, log: log}
	servePage(mux, a)
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.GathererFunc(o.exposed), promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelError),
		ErrorHandling:       promhttp.ContinueOnError, // one broken collector must not hide the others
		EnableOpenMetrics:   true,
		MaxRequestsInFlight: 8,
	}))
	mux.Handle("GET /livez", health(o.Live, nothing))
	mux.Handle("GET /readyz", health(o.Ready, a.inSpite))
	mux.Handle("GET /status", guarded(http.HandlerFunc(a.status)))
	if o.Profile {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// healthHandler serves what anybody may know: reasons name servers.
func (o Options) healthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /livez", health(withoutReason(o.Live), nothing))
	mux.Handle("GET /readyz", health(withoutReason(o.Ready), nothing))
	return mux
}

func withoutReason(ask func() error) func() error {
	return func() error {
		if ask() != nil {
			return errors.New("failed")
		}
		return nil
	}
}

func nothing() string { return "" }

// inSpite is what a relay that is ready has to say, a line each: of a standby whether its leader publishes, and problems.
func (a *api) inSpite() string {
	var text strings.Builder
	st := a.past.status(time.Now())
	if st.State == "standby" {
		fmt.Fprintln(&text, strings.TrimSuffix(st.Verdict.Title+": "+st.Verdict.Cause, ": "))
	}
	for _, p := range st.Problems {
		fmt.Fprintf(&text, "%s, since %s: %s\n", p.With, p.Since.UTC().Format(time.RFC3339), p.Text)
	}
	return text.String()
}

// health answers 200 and what else is said, or 503 with the reason.
func health(ask func() error, say func() string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if err := ask(); err != nil {
			http.Error(w, cdc.Explain(err), http.StatusServiceUnavailable)
			return
		}
		write(w, "text/plain; charset=utf-8", "ok\n"+say())
	}
}

func (a *api) status(w http.ResponseWriter, _ *http.Request) {
	now := time.Now()
	st := a.past.status(now)
	list, _ := a.o.Gatherer.Gather() // metrics of a failing collector are missing
	st.Counters = numbersOf(list, now).counters
	body, err := json.MarshalIndent(st, "", "  ")
	if err != nil { // a time far outside the calendar
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	write(w, "application/json", string(body)+"\n")
}

func write(w http.ResponseWriter, contentType, body string) {
	w.Header().Set("Content-Type", contentType)
	_, _ = io.WriteString(w, body) // fails if the client is gone
}

package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/exporter-toolkit/web"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
)

// Options are the server's options. The functions are called from several goroutines.
type Options struct {
	// Listen is host:port. An empty host means all addresses, port 0 a free port.
	Listen string
	// HealthListen is the address, or "", of a listener for /livez and /readyz alone, without TLS, authentication and reasons.
	HealthListen string
	// WebConfig is the path of a file with TLS and basic authentication, or "".
	WebConfig string
	// Gatherer has the metrics of /metrics.
	Gatherer prometheus.Gatherer
	// ClassicHistograms serves the classic buckets beside the native ones, TopicLabel the label topic.
	ClassicHistograms, TopicLabel bool
	// Status is called for each /status. The server fills in Verdict, Now, Instance, Ready, NotReady and Counters.
	Status func() Status
	// Ready returns nil if the relay leads and makes progress, or stands by; otherwise the reason.
	Ready func() error
	// Live returns an error if the pipeline is stuck.
	Live func() error
	// Profile serves net/http/pprof.
	Profile bool
	// Actions lets callers who authenticate retry and drop dead letters.
	Actions bool
	// Operators are those of them who may; nil: all.
	Operators []string
	// Desk answers what the page asks for.
	Desk Desk
	// Servers are shown.
	Servers Servers
	// Peers are the other relays.
	Peers Peers
}

// Timeouts of one request and of the shutdown.
const (
	headerTimeout   = 5 * time.Second
	readTimeout     = 10 * time.Second
	writeTimeout    = 30 * time.Second
	idleTimeout     = time.Minute
	shutdownTimeout = 3 * time.Second
)

// Limits of one listener. Connections beyond the limit wait, so that nobody can use up the relay's memory and file descriptors.
const (
	maxConnections = 256
	maxHeader      = 16 << 10
	maxBody        = 64 << 10
)

// Server serves the endpoints.
type Server struct {
	listener  net.Listener
	http      *http.Server
	webConfig string
	log       *slog.Logger
	past      *recorder
	health    *Server // nil without HealthListen
}

// New listens, so that a port in use is noticed before anything starts; Run serves. Call Run or Close. Errors are
// [cdc.StopError] of ClassConfig.
func New(ctx context.Context, o Options, log *slog.Logger) (*Server, error) {
	if err := ValidateWebConfig(o.WebConfig); err != nil {
		return nil, err
	}
	if err := validateActions(&o); err != nil {
		return nil, err
	}
	past := newRecorder(&o)
	s, err := newServer(ctx, "http.listen", o.Listen, o.handler(past, log), log)
	if err != nil {
		return nil, err
	}
	s.webConfig, s.past = o.WebConfig, past
	past.listens(s.Addr())
	if o.HealthListen == "" {
		return s, nil
	}
	if s.health, err = newServer(ctx, "http.health_listen", o.HealthListen, o.healthHandler(), log); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func newServer(ctx context.Context, setting, addr string, handler http.Handler, log *slog.Logger) (*Server, error) {
	listener, err := listen(ctx, setting, addr)
	if err != nil {
		return nil, err
	}
	return &Server{
		listener: netutil.LimitListener(listener, maxConnections),
		http: &http.Server{
			Handler:           http.MaxBytesHandler(handler, maxBody),
			ReadHeaderTimeout: headerTimeout,
			ReadTimeout:       readTimeout,
			WriteTimeout:      writeTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeader,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug), // broken handshakes of others
		},
		log: log,
	}, nil
}

// Addr returns the address of the listener.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// TimeToLoss is the metric of when events are lost, as the page shows it.
func (s *Server) TimeToLoss() prometheus.Collector { return s.past }

// HealthAddr returns the address of the listener for health alone, or nil.
func (s *Server) HealthAddr() net.Addr {
	if s.health == nil {
		return nil
	}
	return s.health.Addr()
}

// Run serves until ctx ends, then waits a few seconds for open requests and returns nil. It returns earlier on an error.
func (s *Server) Run(ctx context.Context) error {
	s.log.InfoContext(ctx, "serving metrics, health and status", "address", s.Addr().String())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { s.past.run(ctx); return nil })
	group.Go(func() error { s.past.fleet.run(ctx); return nil })
	group.Go(func() error { return s.serve(ctx) })
	if s.health == nil {
		return group.Wait()
	}
	s.log.InfoContext(ctx, "serving health", "address", s.HealthAddr().String())
	group.Go(func() error { return s.health.serve(ctx) })
	return group.Wait()
}

func (s *Server) serve(ctx context.Context) error {
	served := make(chan error, 1)
	go func() {
		served <- web.Serve(s.listener, s.http, &web.FlagConfig{WebConfigFile: &s.webConfig}, slog.New(quiet{s.log.Handler()}))
	}()
	select {
	case err := <-served:
		return fmt.Errorf("serve http on %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := s.http.Shutdown(grace); err != nil {
		_ = s.http.Close() // the time limit has passed
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http on %s: %w", s.Addr(), err)
	}
	return nil
}

// Close closes the listeners if Run was not called.
func (s *Server) Close() error {
	if err := s.listener.Close(); err != nil {
		return fmt.Errorf("close http listener: %w", err)
	}
	if s.health != nil {
		return s.health.Close()
	}
	return nil
}

// quiet passes on warnings and errors only: the web toolkit logs three lines for what Run logs in one.
type quiet struct{ slog.Handler }

// Enabled reports whether a record of that level is handled.
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && q.Handler.Enabled(ctx, level)
}

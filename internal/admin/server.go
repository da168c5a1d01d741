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
)

// Options are the server's options. The functions are called from several goroutines.
type Options struct {
	// Listen is host:port. An empty host means all addresses, port 0 a free port.
	Listen string
	// WebConfig is the path of a file with TLS and basic authentication, or "".
	WebConfig string
	// Gatherer has the metrics of /metrics.
	Gatherer prometheus.Gatherer
	// Status is called for each /status. The server fills in Ready, NotReady and Counters.
	Status func() Status
	// Ready returns nil if the relay leads and makes progress, or stands by; otherwise the reason.
	Ready func() error
	// Live returns an error if the pipeline is stuck.
	Live func() error
	// Profile serves net/http/pprof.
	Profile bool
}

// Timeouts of one request and of the shutdown.
const (
	headerTimeout   = 5 * time.Second
	readTimeout     = 10 * time.Second
	writeTimeout    = 30 * time.Second
	idleTimeout     = 2 * time.Minute
	shutdownTimeout = 3 * time.Second
)

// Server serves the endpoints.
type Server struct {
	listener  net.Listener
	http      *http.Server
	webConfig string
	log       *slog.Logger
}

// New listens, so that a port in use is noticed before anything starts; Run serves. Call Run or Close. Errors are
// [cdc.StopError] of ClassConfig.
func New(ctx context.Context, o Options, log *slog.Logger) (*Server, error) {
	if err := validateWebConfig(o.WebConfig); err != nil {
		return nil, err
	}
	listener, err := listen(ctx, o.Listen)
	if err != nil {
		return nil, err
	}
	return &Server{
		listener: listener,
		http: &http.Server{
			Handler:           o.handler(log),
			ReadHeaderTimeout: headerTimeout,
			ReadTimeout:       readTimeout,
			WriteTimeout:      writeTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    16 << 10,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug), // broken handshakes of others
		},
		webConfig: o.WebConfig,
		log:       log,
	}, nil
}

// Addr returns the address of the listener.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Run serves until ctx ends, then waits a few seconds for open requests and returns nil. It returns earlier on an error.
func (s *Server) Run(ctx context.Context) error {
	s.log.InfoContext(ctx, "serving metrics, health and status", "address", s.Addr().String())
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

// Close closes the listener if Run was not called.
func (s *Server) Close() error {
	if err := s.listener.Close(); err != nil {
		return fmt.Errorf("close http listener: %w", err)
	}
	return nil
}

// quiet passes on warnings and errors only: the web toolkit logs three lines for what Run logs in one.
type quiet struct{ slog.Handler }

// Enabled reports whether a record of that level is handled.
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && q.Handler.Enabled(ctx, level)
}

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

// Options say where to listen and whom to ask. The functions are called from several goroutines.
type Options struct {
	// Listen is host:port; an empty host is every address, port 0 a free port.
	Listen string
	// WebConfig names a file with TLS and basic authentication; "" is neither.
	WebConfig string
	// Gatherer is what /metrics shows.
	Gatherer prometheus.Gatherer
	// Status is asked at each /status. Ready, NotReady and Counters are filled in by the server.
	Status func() Status
	// Ready returns nil when the relay leads and moves or stands by, else the reason.
	Ready func() error
	// Live returns nil unless the pipeline is stuck.
	Live func() error
	// Profile serves net/http/pprof.
	Profile bool
}

// Timeouts of one request, and of the end.
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

// New listens, so that a port that is taken is found before anything starts, and answers nothing before
// Run. Call Run or Close. An error is a [cdc.StopError] of class ClassConfig.
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

// Addr is where the server listens, with the port that was chosen.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Run serves until ctx ends, lets requests under way finish for a few seconds and returns nil; or
// returns what ended it before.
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
		_ = s.http.Close() // readers that are still connected had their time
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http on %s: %w", s.Addr(), err)
	}
	return nil
}

// Close gives the port back when Run was not called.
func (s *Server) Close() error {
	if err := s.listener.Close(); err != nil {
		return fmt.Errorf("close http listener: %w", err)
	}
	return nil
}

// quiet passes on warnings and errors only: the web toolkit tells in three lines what Run says in one.
type quiet struct{ slog.Handler }

// Enabled reports whether a record of that level is handled.
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && q.Handler.Enabled(ctx, level)
}

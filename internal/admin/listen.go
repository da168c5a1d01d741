package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/prometheus/exporter-toolkit/web"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// hostPort is the fix for a malformed address.
const hostPort = "write it as host:port, or :port for all addresses"

// listen binds addr.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, cdc.Stop(cdc.ClassConfig, "http_listen", whyNotListening(addr, err), "")
	}
	return l, nil
}

func whyNotListening(addr string, err error) error {
	var (
		unknown *net.DNSError
		written *net.AddrError
	)
	_, port, _ := net.SplitHostPort(addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return cdc.Fixable("set http.listen to a free one, or stop the other process", "port %s of http.listen (%q) is in use by another process", port, addr)
	case errors.Is(err, fs.ErrPermission):
		return cdc.Fixable("set http.listen to a port above 1023", "port %s of http.listen (%q) may not be opened by this user", port, addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return cdc.Fixable(fmt.Sprintf("use \":%s\" for all of them", port), "http.listen is %q, which is not an address of this machine", addr)
	case errors.As(err, &unknown):
		return cdc.Fixable(hostPort, "http.listen is %q, whose host or port is not known (%w)", addr, unknown)
	case errors.As(err, &written):
		return cdc.Fixable(hostPort, "http.listen is %q (%s)", addr, written.Err)
	default:
		return fmt.Errorf("listen on http.listen %q: %w", addr, err)
	}
}

// validateWebConfig reads the web config file as the server does.
func validateWebConfig(path string) error {
	if path == "" {
		return nil
	}
	err := web.Validate(path)
	if err == nil {
		return nil
	}
	reason := strings.Join(strings.Fields(err.Error()), " ") // YAML errors have several lines
	return cdc.Stop(cdc.ClassConfig, "http_web_config",
		fmt.Errorf("http.web_config %s cannot be used (%s)", path, reason),
		"write it as described in exporter-toolkit's web configuration")
}

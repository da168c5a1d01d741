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

// listen binds addr, the value of a setting.
func listen(ctx context.Context, setting, addr string) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, cdc.Stop(cdc.ClassConfig, "http_listen", whyNotListening(setting, addr, err), "")
	}
	return l, nil
}

func whyNotListening(setting, addr string, err error) error {
	var (
		unknown *net.DNSError
		written *net.AddrError
	)
	_, port, _ := net.SplitHostPort(addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return cdc.Fixable(fmt.Sprintf("set %s to a free one, or stop the other process", setting), "port %s of %s (%q) is in use by another process", port, setting, addr)
	case errors.Is(err, fs.ErrPermission):
		return cdc.Fixable(fmt.Sprintf("set %s to a port above 1023", setting), "port %s of %s (%q) may not be opened by this user", port, setting, addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return cdc.Fixable(fmt.Sprintf("use \":%s\" for all of them", port), "%s is %q, which is not an address of this machine", setting, addr)
	case errors.As(err, &unknown):
		return cdc.Fixable(hostPort, "%s is %q, whose host or port is not known (%w)", setting, addr, unknown)
	case errors.As(err, &written):
		return cdc.Fixable(hostPort, "%s is %q (%s)", setting, addr, written.Err)
	default:
		return fmt.Errorf("listen on %s %q: %w", setting, addr, err)
	}
}

// ValidateWebConfig reads the web config file as the server does at every connection.
func ValidateWebConfig(path string) error {
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
		"correct it: https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md describes its settings")
}

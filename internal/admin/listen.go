package admin

import (
	"context"
	"fmt"
	"net"
	"strings"

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
		return nil, cdc.ConfigError("http_listen", "set "+setting+" to a host and port that are free on this machine, or :port for all addresses", "%s is %q, which cannot be listened on (%s)", setting, addr, cdc.LastCause(err))
	}
	return l, nil
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

package config

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// tlsOptions are the options of a connection string that say how TLS is used.
func tlsOptions() []string {
	return []string{"ssl", "sslmode", "sslrootcert", "sslcert", "sslkey", "sslcertmode", "sslnegotiation", "sslpassword", "sslsni"}
}

// shownOptions are the options that hold no secret. Others are not shown, not even by name: a password with an
// unescaped character in it can end up as one.
func shownOptions() []string {
	return []string{
		"sslmode", "sslrootcert", "sslcert", "sslkey", "sslcertmode", "sslnegotiation", "sslsni", "connect_timeout", "target_session_attrs",
		"channel_binding", "require_auth", "min_protocol_version", "max_protocol_version", "passfile", "service", "servicefile",
		"krbsrvname", "krbspn", "application_name", "options",
	}
}

// dsnOptions returns the options that a valid connection string names, and the password of a URL.
func dsnOptions(dsn string) map[string]string {
	options := map[string]string{}
	if _, isURL := urlRest(dsn); isURL {
		if u, err := url.Parse(dsn); err == nil {
			for key, values := range u.Query() {
				options[key] = values[len(values)-1]
			}
			if password, given := u.User.Password(); given {
				options["password"] = password
			}
		}
		return options
	}
	pair := regexp.MustCompile(`([^\s=]+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s\\]|\\.)*)`)
	for _, m := range pair.FindAllStringSubmatch(dsn, -1) {
		value := m[2]
		if len(value) > 1 && value[0] == '\'' {
			value = value[1 : len(value)-1]
		}
		options[m[1]] = regexp.MustCompile(`\\(.)`).ReplaceAllString(value, "$1")
	}
	return options
}

// ways returns the ways to connect, one after the other: the hosts, and each host with and without TLS where sslmode allows both. The
// environment (PGSSLMODE) and a service file count too.
func ways(c *pgconn.Config) []*pgconn.FallbackConfig {
	return append([]*pgconn.FallbackConfig{{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}}, c.Fallbacks...)
}

// addresses returns host:port, or the directory of a socket, for each host.
func addresses(c *pgconn.Config) []string {
	var all []string
	for _, way := range ways(c) {
		all = append(all, address(way.Host, way.Port))
	}
	return slices.Compact(all)
}

func address(host string, port uint16) string {
	if isSocket(host) {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// isSocket reports whether a host is the directory of a socket.
func isSocket(host string) bool { return strings.HasPrefix(host, "/") }

// shownDSN returns a connection string that may be shown, made of what was parsed, with the options of dsn.
func shownDSN(c *pgconn.Config, dsn string) string {
	user := url.User(c.User).String()
	if c.Password != "" {
		user += ":" + hidden
	}
	query := url.Values{}
	given := dsnOptions(dsn)
	for _, name := range shownOptions() {
		if value, ok := given[name]; ok {
			query.Set(name, value)
		}
	}
	hosts := strings.Join(addresses(c), ",")
	if isSocket(c.Host) {
		hosts = ""
		query.Set("host", c.Host)
		query.Set("port", strconv.Itoa(int(c.Port)))
	}
	shown := fmt.Sprintf("postgres://%s@%s/%s", user, hosts, url.PathEscape(database(c)))
	if len(query) > 0 {
		shown += "?" + encode(query)
	}
	return shown
}

// encode keeps paths readable.
func encode(query url.Values) string { return strings.ReplaceAll(query.Encode(), "%2F", "/") }

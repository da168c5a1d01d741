package config

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// ConnString returns the connection string for github.com/go-sql-driver/mysql with the current password. Call it at every
// connect, and keep it out of logs and errors; DSN prints without the password.
func (m *MySQL) ConnString(ctx context.Context) (string, error) {
	dsn, password, err := credentials(ctx, "source.mysql", m.DSN, m.Password)
	if err != nil {
		return "", err
	}
	parsed, err := parseMySQL(dsn, password)
	if err != nil {
		return "", fmt.Errorf("source.mysql.dsn %w", err)
	}
	return parsed.FormatDSN(), nil
}

// parseMySQL parses a connection string; password, unless it is "", replaces the one in it. Its errors have constant texts,
// because a password with an unescaped character can be in any part that the parser quotes.
func parseMySQL(dsn, password string) (*mysql.Config, error) {
	rest, isURL := mysqlURL(dsn)
	_, isPostgres := urlRest(dsn)
	switch {
	case strings.HasPrefix(dsn, "jdbc:"):
		return nil, cdc.Fixable("remove jdbc: at its start", "is a JDBC URL")
	case isPostgres:
		return nil, cdc.Fixable("set source.postgres.dsn in place of it", "is a connection string for PostgreSQL")
	case !isURL && anyURL.MatchString(dsn):
		return nil, cdc.Fixable(writeMySQL, "does not start with mysql://")
	case isURL:
		var err error
		if dsn, err = fromURL(dsn, rest); err != nil {
			return nil, err
		}
	}
	parsed, err := mysql.ParseDSN(dsn)
	switch {
	case err != nil && strings.HasPrefix(err.Error(), "invalid DSN: missing the slash"):
		return nil, cdc.Fixable(writeMySQL, "names no database")
	case err != nil:
		return nil, cdc.Fixable(writeMySQL+"; write / and % in the database's name and in options as %2F and %25, and set source.mysql.tls for certificates of your own",
			"is not a valid connection string of Go's MySQL driver")
	}
	if password != "" {
		parsed.Passwd = password
	}
	for option := range parsed.Params { // which the driver takes for system variables: it would run SET password = ...
		if slices.Contains([]string{"user", "username", "password", "passwd", "pass", "pwd"}, fold(option)) {
			return nil, cdc.Fixable("write them before the address, or set source.mysql.password", "has the user or the password after the ?")
		}
	}
	switch {
	case parsed.Net != "tcp" && parsed.Net != "unix":
		return nil, cdc.Fixable(writeMySQL, "has an address that is neither tcp(host:port) nor unix(/path/to/socket)")
	case parsed.DBName == "":
		return nil, cdc.Fixable(writeMySQL, "names no database")
	case parsed.User == "":
		return nil, cdc.Fixable(writeMySQL, "names no user")
	}
	return parsed, nil
}

const writeMySQL = "write relay@tcp(db.example.com:3306)/orders, or mysql://relay@db.example.com:3306/orders"

// mysqlURL returns what follows the scheme of a connection URL.
func mysqlURL(dsn string) (rest string, isURL bool) {
	if rest, isURL = strings.CutPrefix(dsn, "mysql://"); isURL {
		return rest, true
	}
	return strings.CutPrefix(dsn, "mariadb://")
}

// fromURL converts a URL to the driver's form. The parameters after the ? are the driver's.
func fromURL(dsn, rest string) (string, error) {
	if straySign(rest) {
		return "", cdc.Fixable("write %40 for @, %2F for / and %25 for % inside the "+
			"user name and password, or set source.mysql.password", "has an @ out of place")
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "", cdc.Fixable("write %XX for special characters in the user name and "+
			"password, or set source.mysql.password", "is not a valid URL")
	}
	options, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", cdc.Fixable("write %XX for special characters in them", "has options after the ? that are not name=value pairs")
	}
	c := mysql.NewConfig()
	c.Params = map[string]string{}
	for option, values := range options {
		if slices.Contains([]string{"sslmode", "sslca", "sslcert", "sslkey", "usessl"}, fold(option)) {
			return "", cdc.Fixable("write ?tls=true instead, or set source.mysql.tls", "asks for TLS in another driver's words")
		}
		c.Params[option] = values[len(values)-1]
	}
	c.User, c.DBName = u.User.Username(), strings.TrimPrefix(u.Path, "/")
	c.Passwd, _ = u.User.Password()
	if u.Host != "" {
		c.Net, c.Addr = "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "3306"))
	}
	return c.FormatDSN(), nil
}

// shownMySQL returns a connection string that may be shown: every option of the driver that is not a default, and neither the
// password nor system variables, which may hold anything.
func shownMySQL(c *mysql.Config) string {
	shown := c.Clone()
	if c.Passwd != "" {
		shown.Passwd = hidden
	}
	shown.Params = nil
	return shown.FormatDSN()
}

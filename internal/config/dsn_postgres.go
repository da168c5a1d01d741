package config

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/url"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// ConnString returns the connection string with the current password. Call it at every connect, and keep it out of logs and
// errors; DSN prints without the password.
func (p *Postgres) ConnString(ctx context.Context) (string, error) {
	dsn, password, err := credentials(ctx, "source.postgres", p.DSN, p.Password)
	return withPassword(dsn, password), err
}

// withPassword adds a password to a connection string; the last one named counts (libpq and pgx alike).
func withPassword(dsn, password string) string {
	if password == "" {
		return dsn
	}
	rest, isURL := urlRest(dsn)
	if !isURL {
		return dsn + " password='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password) + "'"
	}
	separator := "?"
	if strings.Contains(rest[strings.LastIndex(rest, "@")+1:], "?") {
		separator = "&"
	}
	return dsn + separator + "password=" + strings.ReplaceAll(url.QueryEscape(password), "+", "%20")
}

// urlRest returns what follows the scheme of a connection URL.
func urlRest(dsn string) (rest string, isURL bool) {
	if rest, isURL = strings.CutPrefix(dsn, "postgres://"); isURL {
		return rest, true
	}
	return strings.CutPrefix(dsn, "postgresql://")
}

// parseDSN parses a connection string. Its errors have constant texts, because a password with an unescaped character can be
// in any part that the parser quotes.
func parseDSN(dsn string) (*pgconn.Config, error) {
	rest, isURL := urlRest(dsn)
	_, isMySQL := mysqlURL(dsn)
	switch {
	case strings.HasPrefix(dsn, "jdbc:"):
		return nil, cdc.Fixable("remove jdbc: at its start", "is a JDBC URL")
	case dotNet.MatchString(dsn):
		return nil, cdc.Fixable(writePostgres, "is a connection string of .NET")
	case isMySQL:
		return nil, cdc.Fixable("set source.mysql.dsn in place of it", "is a connection string for MySQL or MariaDB")
	case !isURL && anyURL.MatchString(dsn):
		return nil, cdc.Fixable(writePostgres, "does not start with postgres://")
	case isURL && straySign(rest):
		return nil, cdc.Fixable("write %40 for @, %2F for / and %25 for % inside the "+
			"user name and password, or set source.postgres.password", "has an @ out of place")
	}
	parsed, err := pgconn.ParseConfig(dsn)
	pathErr := (*fs.PathError)(nil)
	switch {
	case err == nil:
		return parsed, nil
	case errors.As(err, &pathErr):
		return nil, cdc.Fixable("correct the path", "names a file in sslrootcert, sslcert, sslkey or servicefile that cannot be read (%w)", pathErr.Err)
	case strings.Contains(err.Error(), "`: invalid port"):
		return nil, cdc.Fixable("write a / in the password as %2F", "has a port that is not a number")
	}
	return nil, cdc.Fixable(writePostgres+", with %XX for special characters in the user name and password, or key=value pairs with values that hold "+
		"spaces in single quotes; correct options such as sslmode", "is not a valid connection string")
}

const writePostgres = "write postgres://user@host:5432/database"

// dotNet matches a connection string like "Host=db;Port=5432".
var dotNet = regexp.MustCompile(`(?i)^\s*(Host|Server|Data Source|Port|Database|User ID|Username)\s*=[^;]*;`)

// anyURL matches a connection string that starts with a scheme.
var anyURL = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.:-]*://`)

// straySign reports whether an @ of a URL stands elsewhere than behind the user name and password.
func straySign(rest string) bool {
	signs := strings.Count(rest, "@")
	return signs > 1 || signs == 1 && rest[strings.IndexAny(rest, "@/")] != '@'
}

// database returns the database that PostgreSQL takes: the user's name is the default.
func database(c *pgconn.Config) string { return cmp.Or(c.Database, c.User) }

// slotName returns the default name of slot and publication: replication slots are named with
// [a-z0-9_] only, up to 63 characters (ReplicationSlotValidateName in
// src/backend/replication/slot.c).
func slotName(database string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(database))
	name := "cdc_relay_" + clean
	return name[:min(len(name), maxName)]
}

// maxName is PostgreSQL's limit for names, in bytes (NAMEDATALEN-1).
const maxName = 63

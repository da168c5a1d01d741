package config

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Connection is what a connection string says.
type Connection struct {
	// MySQL is whether it leads to MySQL or MariaDB, and not to PostgreSQL.
	MySQL bool
	// DSN is in the form that the drivers take. It is a secret.
	DSN string
	// Shown has no password, and Password is whether DSN has one. Options of the driver that may hold a secret are left out.
	Shown    string
	Password bool
	Database string
}

// ReadConnection reads a connection string in any form that source.postgres.dsn or source.mysql.dsn accepts, and tells from its form to
// which database it leads. Its errors continue the string's name and never contain the string.
func ReadConnection(dsn string) (Connection, error) {
	pairs := regexp.MustCompile(`^\s*\w+\s*=`).MatchString(dsn)
	_, isPostgres := urlRest(dsn)
	_, isMySQL := mysqlURL(dsn)
	switch {
	case isPostgres || pairs:
		parsed, err := parseDSN(dsn)
		if err != nil {
			return Connection{}, err
		}
		return Connection{
			DSN: dsn, Database: database(parsed), Password: dsnOptions(dsn)["password"] != "",
			Shown: strings.Replace(shownDSN(parsed, dsn), ":"+hidden+"@", "@", 1),
		}, nil
	case anyURL.MatchString(dsn) && !isMySQL && !strings.HasPrefix(dsn, "jdbc:"):
		return Connection{}, cdc.Fixable("write postgres://user@host:5432/database or mysql://user@host:3306/database", "starts with neither postgres:// nor mysql://")
	}
	parsed, err := parseMySQL(dsn, "")
	if err != nil {
		return Connection{}, err
	}
	c := Connection{MySQL: true, DSN: parsed.FormatDSN(), Database: parsed.DBName, Password: parsed.Passwd != ""}
	parsed.Passwd = ""
	c.Shown = shownMySQL(parsed)
	return c, nil
}

// credentials reveals the dsn and the password of a section.
func credentials(ctx context.Context, section string, from, secret Secret) (dsn, password string, err error) {
	if dsn, err = from.Reveal(ctx); err != nil {
		return "", "", fmt.Errorf("%s.dsn: %w", section, err)
	}
	if password, err = secret.Reveal(ctx); err != nil {
		return "", "", fmt.Errorf("%s.password: %w", section, err)
	}
	return dsn, password, nil
}

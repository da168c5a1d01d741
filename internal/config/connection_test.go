package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/config"
)

// The form of a connection string says to which database it leads. Its password is in nothing that is shown.
func TestReadConnection(t *testing.T) {
	t.Setenv("PGPASSWORD", "of the environment")
	const secret = "geheim-4711"
	for _, c := range []struct{ dsn, want string }{
		{"postgres://app@db/orders", "postgres orders postgres://app@db:5432/orders false"},
		{"postgresql://app:" + secret + "@db:6432/orders?sslmode=require&password2=" + secret, "postgres orders postgres://app@db:6432/orders?sslmode=require true"},
		{"postgres://app@db/orders?password=" + secret, "postgres orders postgres://app@db:5432/orders true"},
		{"host=/run user=app password=" + secret + " dbname=orders", "postgres orders postgres://app@/orders?host=/run&port=5432 true"},
		{"mysql://app:" + secret + "@db/orders", "mysql orders app@tcp(db:3306)/orders true"},
		{"mariadb://app@db:3307/orders?tls=true", "mysql orders app@tcp(db:3307)/orders?tls=true false"},
		{"app:" + secret + "=x@tcp(db)/orders?time_zone='" + secret + "'", "mysql orders app@tcp(db:3306)/orders true"},
		{"jdbc:postgresql://db/" + secret, "is a JDBC URL"},
		{"mysql://app:" + secret + "@x@db/orders", "has an @ out of place"},
		{secret, "names no database"},
		{"", "names no database"},
	} {
		at, err := config.ReadConnection(c.dsn)
		got := fmt.Sprintf("%s %s %s %t", map[bool]string{true: "mysql", false: "postgres"}[at.MySQL], at.Database, at.Shown, at.Password)
		if err != nil {
			got = err.Error()
		}
		if got != c.want || strings.Contains(got, secret) {
			t.Errorf("%s\ngot  %s\nwant %s", c.dsn, got, c.want)
		}
	}
}

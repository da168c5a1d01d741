package config_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

const minimalMySQL = `
source: {mysql: {dsn: "relay:s3cret@tcp(db:3307)/Orders-EU"}}
kafka: {brokers: ["k1:9092", "k2:9092"]}
checkpoint: {redis: {addrs: ["r:1"]}}
`

func withDSN(dsn string) string {
	return strings.Replace(minimalMySQL, "relay:s3cret@tcp(db:3307)/Orders-EU", dsn, 1)
}

func TestTableNames(t *testing.T) {
	for _, check := range []struct{ file, tables, want string }{
		{minimal, "", `["public.outbox"]`},
		{minimal, `tables: [{name: outbox}, {name: Änderungen}, {name: app.Out box}]`, `["public.outbox" "public.Änderungen" "app.Out box"]`},
		{minimalMySQL, "", `["Orders-EU.outbox"]`},
		{minimalMySQL, `tables: [{name: events}, {name: shop.events}]`, `["Orders-EU.events" "shop.events"]`},
	} {
		if have := fmt.Sprintf("%q", mustParse(t, check.file+check.tables, nil).TableNames()); have != check.want {
			t.Errorf("%s: have %s, want %s", check.tables, have, check.want)
		}
	}
}

func TestShownMySQL(t *testing.T) {
	for dsn, want := range map[string]string{
		"relay:pw@tcp(db:3306)/orders":                         "relay:***@tcp(db:3306)/orders",
		"relay@tcp(db)/orders?timeout=5s":                      "relay@tcp(db:3306)/orders?timeout=5s",
		"relay@/orders":                                        "relay@tcp(127.0.0.1:3306)/orders",
		"relay:p@:/w@unix(/run/mysqld/mysqld.sock)/or%2Fders":  "relay:***@unix(/run/mysqld/mysqld.sock)/or%2Fders",
		"relay:pw@tcp([::1]:3306)/orders?tls=skip-verify":      "relay:***@tcp([::1]:3306)/orders?tls=skip-verify",
		"mysql://relay:p%40w@db/orders":                        "relay:***@tcp(db:3306)/orders",
		"mariadb://relay@db:3307/orders?tls=true&timeout=5s":   "relay@tcp(db:3307)/orders?timeout=5s&tls=true",
		"relay@tcp(db)/orders?token=pw&sql_mode=ANSI&tls=true": "relay@tcp(db:3306)/orders?tls=true",
		"mysql://relay@[::1]/or%2Fders":                        "relay@tcp([::1]:3306)/or%2Fders",
	} {
		c := mustParse(t, withDSN(dsn), nil)
		if got := c.Source.MySQL.DSN.String(); got != want {
			t.Errorf("%s: have %s, want %s", dsn, got, want)
		}
	}
}

// TestPasswordBesideMySQL holds what is put into the connection string to the parser that will read it.
func TestPasswordBesideMySQL(t *testing.T) {
	for _, dsn := range []string{
		"relay@tcp(db:3306)/orders", "relay:old@tcp(db)/orders?tls=true&loc=Europe%2FBerlin", "mysql://relay:old@db/orders",
		"mariadb://relay@db/orders?loc=Europe/Berlin",
	} {
		rapid.Check(t, func(t *rapid.T) {
			password := rapid.StringMatching(`[ -~é\t]{1,20}`).Draw(t, "password")
			m := config.MySQL{DSN: config.Literal(dsn), Password: config.Literal(password)}
			hold(t, m.ConnString, password)
			m = config.MySQL{DSN: config.Literal("mysql://relay:" + url.QueryEscape("x"+password+"x") + "@db/orders")}
			hold(t, m.ConnString, "x"+strings.ReplaceAll(password, " ", "+")+"x")
		})
	}
}

func hold(t *rapid.T, connString func(context.Context) (string, error), password string) {
	t.Helper()
	text, err := connString(context.Background())
	testenv.Must(t, err)
	parsed, err := mysql.ParseDSN(text)
	testenv.Must(t, err)
	if parsed.Passwd != password || parsed.User != "relay" || parsed.Addr != "db:3306" || parsed.DBName != "orders" {
		t.Errorf("%q became %q", password, parsed.Passwd)
	}
}

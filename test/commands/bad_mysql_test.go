package commands

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// badMySQL are errors of the connection to MySQL or MariaDB, or of what setup creates there. strict accepts TLS only.
func badMySQL(strict *testenv.MySQLServer, web string) []badInput {
	url := func(s *site, server *testenv.MySQLServer) *site { return s.replace(s.addr(), server.Addr()) }
	return []badInput{
		{"host does not resolve", func(s *site) { s.impatient().replace(s.addr(), "db.invalid:3306") }, nil},
		{"nothing listens", func(s *site) { s.impatient().replace(s.addr(), "127.0.0.1:1") }, nil},
		{"wrong password", func(s *site) { s.replace("mysql: {", "mysql: {password: wrong, ") }, nil},
		{"unknown user", func(s *site) { s.replace("root@", "nobody@") }, nil},
		{"unknown database", func(s *site) { s.replace("/"+s.name, "/nowhere") }, []string{"run", "check", "setup"}},
		{"parameter of another driver", func(s *site) { s.replace("/"+s.name+`"`, "/"+s.name+`?connection_limit=5"`) }, nil},
		{"account locked", func(s *site) {
			s.sql("DROP USER IF EXISTS locked", "CREATE USER locked ACCOUNT LOCK").replace("root@", "locked@")
		}, nil},
		{"TLS refused", func(s *site) { s.replace("mysql: {", "mysql: {tls: {}, ") }, nil},
		{"TLS required", func(s *site) { url(s, strict) }, nil},
		{"certificate of an unknown authority", func(s *site) { url(s, strict).replace("mysql: {", "mysql: {tls: {}, ") }, nil},
		{"port of Kafka", func(s *site) { s.impatient().replace(s.addr(), kafka.Bootstrap()[0]) }, nil},
		{"port of PostgreSQL", func(s *site) { s.impatient().replace(s.addr(), postgres.Addr()) }, nil},
		{"port of HTTP", func(s *site) { s.impatient().replace(s.addr(), web) }, nil},
		{"bad GTID set", func(s *site) { s.setup() }, []string{"position set yesterday", "position set 3e11fa47:1-x"}},
		{"repair without need", func(s *site) { s.setup() }, []string{"repair"}},
		{"event with a bad or an unknown ID", func(s *site) { s.setup() }, []string{"event 4711", "event 11111111-1111-4111-8111-111111111111"}},
		{"not set up", func(*site) {}, nil},
		{"table missing", func(s *site) { s.setup().sql("DROP TABLE outbox") }, nil},
		{"column missing", func(s *site) { s.setup().sql("ALTER TABLE outbox DROP COLUMN payload") }, nil},
		{"column of a route missing", func(s *site) {
			s.setup().replace("{topic: "+s.name+"}", `{match: {region: "eu"}, topic: `+s.name+"}")
		}, nil},
	}
}

// TestBadInputOnMySQL is TestBadInput for errors that are specific to MySQL and MariaDB.
//
//covers:binlogs 28 messages
func TestBadInputOnMySQL(t *testing.T) {
	t.Parallel()
	for flavor := range mysqls {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			strict := testenv.MySQL(t, testenv.MySQLOptions{Flavor: flavor, TLS: true, Settings: map[string]string{"require_secure_transport": "ON"}})
			web := httptest.NewServer(http.NotFoundHandler())
			t.Cleanup(web.Close)
			b := &book{}
			t.Run("group", func(t *testing.T) { // holds the parallel tests together
				for _, in := range b.chapter(badMySQL(strict, web.Listener.Addr().String())) {
					t.Run(in.name, func(t *testing.T) {
						t.Parallel()
						b.write(in, newMySQLSite(t, flavor))
					})
				}
			})
			golden(t, "bad_input_"+flavor+".txt", b.text())
		})
	}
}

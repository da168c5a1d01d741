package testenv_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

func flavors() []string { return []string{testenv.MySQLFlavor, testenv.MariaDBFlavor} }

func TestMySQLServesAndKeepsItsData(t *testing.T) {
	t.Parallel()
	for _, flavor := range flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			m := testenv.MySQL(t, testenv.MySQLOptions{Flavor: flavor, Durable: true})
			ctx := t.Context()
			must(t, m.CreateDatabase(ctx, "shop"))
			must(t, m.Exec(ctx, "shop", "CREATE TABLE t (n int); INSERT INTO t VALUES (42)"))
			addr := m.Addr()
			for _, how := range []testenv.MySQLStop{testenv.MySQLShutdown, testenv.MySQLCrash} {
				must(t, m.Restart(ctx, how))
				if m.Addr() != addr {
					t.Fatalf("address changed from %s to %s", addr, m.Addr())
				}
				if got := mysqlText(t, m.DSN("shop", "timeout=5s"), "SELECT n FROM t"); got != "42" {
					t.Fatalf("after stop %v: got %q", how, got)
				}
			}
		})
	}
}

// The relay refuses a server with other settings.
func TestMySQLHasTheSettingsThatTheRelayRequires(t *testing.T) {
	t.Parallel()
	for _, o := range []testenv.MySQLOptions{
		{Flavor: testenv.MySQLFlavor},
		{Flavor: testenv.MariaDBFlavor},
		{Flavor: testenv.MariaDBFlavor, Release: testenv.MariaDB114},
		{Flavor: testenv.MariaDBFlavor, Release: testenv.MariaDB118},
	} {
		flavor := o.Flavor
		t.Run(flavor+o.Release, func(t *testing.T) {
			t.Parallel()
			o.ServerID, o.Settings = 77, map[string]string{"max_connections": "33"}
			m := testenv.MySQL(t, o)
			if !strings.HasPrefix(m.Version, o.Release) {
				t.Errorf("version %s, want %s", m.Version, o.Release)
			}
			want := map[string]string{
				"log_bin": "1", "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL", "sync_binlog": "1",
				"innodb_flush_log_at_trx_commit": "1", "server_id": "77", "max_connections": "33",
			}
			if flavor == testenv.MySQLFlavor {
				want["gtid_mode"], want["enforce_gtid_consistency"] = "ON", "ON"
			}
			for name, value := range want {
				if got := mysqlText(t, m.DSN("", ""), "SELECT @@global."+name); got != value {
					t.Errorf("%s is %s, want %s", name, got, value)
				}
			}
			gtids, err := m.GTIDs(t.Context())
			must(t, err)
			if gtids != "" {
				t.Errorf("a fresh server has transactions %s", gtids)
			}
			version := mysqlText(t, m.DSN("", ""), "SELECT VERSION()")
			if !strings.HasPrefix(version, m.Version) || strings.Contains(version, "MariaDB") != (flavor == testenv.MariaDBFlavor) {
				t.Errorf("version %s, want %s of %s", version, m.Version, flavor)
			}
		})
	}
}

func TestMySQLWithTLSAndPasswords(t *testing.T) {
	t.Parallel()
	for _, flavor := range flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			plugin := map[string]string{testenv.MySQLFlavor: "caching_sha2_password", testenv.MariaDBFlavor: "mysql_native_password"}[flavor]
			for _, encrypted := range []bool{true, false} {
				m := testenv.MySQL(t, testenv.MySQLOptions{Flavor: flavor, TLS: encrypted})
				must(t, m.CreateUser(t.Context(), "relay", `it's \`, plugin, "REPLICATION SLAVE, REPLICATION CLIENT ON *.*"))
				mysqlText(t, m.UserDSN("relay", `it's \`, "", ""), "SELECT 1")
				refusedMySQL(t, m.UserDSN("relay", "wrong", "", ""), "Access denied")
				db, err := m.Open("", func(config *mysql.Config) { config.User, config.Passwd = "relay", `it's \` })
				must(t, err)
				var name, cipher string
				must(t, db.QueryRowContext(t.Context(), "SHOW STATUS LIKE 'Ssl_cipher'").Scan(&name, &cipher))
				must(t, db.Close())
				if (cipher != "") != encrypted || (m.CAFile() != "") != encrypted {
					t.Errorf("TLS %v: cipher is %q, authority %q", encrypted, cipher, m.CAFile())
				}
			}
		})
	}
}

func TestMySQLReplicaIsPromotedWithWhatThePrimaryHad(t *testing.T) {
	t.Parallel()
	for _, flavor := range flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			primary := testenv.MySQL(t, testenv.MySQLOptions{Flavor: flavor})
			ctx := t.Context()
			must(t, primary.CreateDatabase(ctx, "shop"))
			must(t, primary.Exec(ctx, "shop", "CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t VALUES (1)"))
			replica := testenv.MySQLReplica(t, primary, testenv.MySQLOptions{})
			must(t, primary.Exec(ctx, "shop", "INSERT INTO t VALUES (2)"))
			gtids, err := primary.GTIDs(ctx)
			must(t, err)
			must(t, replica.AwaitGTIDs(ctx, gtids))
			has, err := replica.GTIDs(ctx)
			must(t, err)
			if has != gtids || gtids == "" {
				t.Errorf("the replica's log has %q, the primary's %q", has, gtids)
			}
			must(t, primary.Stop(ctx, testenv.MySQLCrash))
			must(t, replica.Promote(ctx))
			must(t, replica.Exec(ctx, "shop", "INSERT INTO t VALUES (3)"))
			if got := mysqlText(t, replica.DSN("shop", ""), "SELECT SUM(n) FROM t"); got != "6" {
				t.Errorf("the sum is %s, want 6", got)
			}
			must(t, primary.Start(ctx)) // the old primary comes back as a replica
			must(t, primary.Follow(ctx, replica))
			if got := mysqlText(t, primary.DSN("shop", ""), "SELECT SUM(n) FROM t"); got != "6" {
				t.Errorf("the sum on the old primary is %s, want 6", got)
			}
		})
	}
}

func TestMySQLThroughAProxyAndPaused(t *testing.T) {
	t.Parallel()
	for _, flavor := range flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			m := testenv.MySQL(t, testenv.MySQLOptions{Flavor: flavor})
			proxy := testenv.Proxy(t, m.Addr())
			through := strings.Replace(m.DSN("", ""), m.Addr(), proxy.Addr(), 1)
			mysqlText(t, through, "SELECT 1")
			proxy.Cut()
			refusedMySQL(t, through, "refused")
			must(t, proxy.Restore())
			must(t, m.Pause())
			refusedMySQL(t, through+"?readTimeout=300ms", "invalid connection") // it is accepted and gets no answer
			must(t, m.Resume())
			mysqlText(t, through, "SELECT 1")
		})
	}
}

func mysqlText(t *testing.T, dsn, query string) string {
	t.Helper()
	text, err := askMySQL(t, dsn, query)
	must(t, err)
	return text
}

func refusedMySQL(t *testing.T, dsn, want string) {
	t.Helper()
	_, err := askMySQL(t, dsn, "SELECT 1")
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("got %v, want %q", err, want)
	}
}

func askMySQL(t *testing.T, dsn, query string) (text string, err error) {
	t.Helper()
	config, err := mysql.ParseDSN(dsn)
	must(t, err)
	config.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	must(t, err)
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }()
	err = db.QueryRowContext(t.Context(), query).Scan(&text)
	return text, err
}

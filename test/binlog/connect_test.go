package binlog

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// A user with a password and only the required rights reads the binlog and asks what is visible, over TLS with verification of the certificate, and on
// MySQL, with caching_sha2_password, also without TLS.
func TestTLS(t *testing.T) {
	for _, flavor := range []string{testenv.MySQLFlavor, testenv.MariaDBFlavor} {
		t.Run(flavor, func(t *testing.T) {
			server := testenv.MySQL(t, testenv.MySQLOptions{Flavor: flavor, TLS: true})
			plugin := map[string]string{testenv.MySQLFlavor: "caching_sha2_password"}[flavor]
			for _, statement := range []string{"CREATE DATABASE shop", "CREATE TABLE shop.outbox (n INT NOT NULL, pad LONGBLOB)"} {
				testenv.Must(t, server.Exec(t.Context(), "", statement))
			}
			testenv.Must(t, server.CreateUser(t.Context(), "relay", "se/cr@t", plugin, server.ReplicationRights()+" ON *.*", "SELECT ON shop.outbox"))
			d := &database{t: t, flavor: flavor, name: "shop", dsn: server.UserDSN("relay", "se/cr@t", "shop", "")}
			d.db = d.open(server.DSN("shop", ""))
			defer d.db.Close()
			verified := func() (*tls.Config, error) { return server.ClientTLS(), nil }
			for name, secure := range map[string]func() (*tls.Config, error){"verified": verified, "plain": nil} {
				if err := server.Exec(t.Context(), "", "FLUSH PRIVILEGES"); err != nil { // also clears the cache of caching_sha2_password
					t.Fatal(err)
				}
				o := current()
				o.TLS, o.WaitUntilVisible = secure, true
				r := start(t, d.source(o), none)
				d.session(insert(1))
				r.Expect(1)
				if err := r.Stop(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			o := current()
			o.TLS = func() (*tls.Config, error) { return &tls.Config{}, nil } // which does not know the server's CA
			stops(t, d.source(o), "tls_certificate", "source.mysql.tls.ca")
			d.dsn = strings.Replace(d.dsn, "se/cr@t", "wrong", 1)
			stops(t, d.source(current()), "password", "source.mysql.dsn")
		})
	}
}

// stops verifies that a start is refused.
func stops(t *testing.T, s *binlog.Source, reason string, says ...string) {
	t.Helper()
	_, _, err := s.Acquire(t.Context(), none)
	if cdc.ReasonOf(err) != reason {
		s.Release(context.WithoutCancel(t.Context()))
		t.Errorf("%v, want %s", err, reason)
		return
	}
	for _, word := range says {
		if !strings.Contains(cdc.Explain(err), word) {
			t.Errorf("%q does not say %s", err, word)
		}
	}
}

// Settings with which events could be lost or unreadable are refused at the start, with the statement that fixes them.
func TestSettings(t *testing.T) {
	onEach(t, func(d *database) {
		t := d.t
		d.simple()
		for variable, values := range map[string][2]string{
			"binlog_row_image": {"MINIMAL", "FULL"}, "binlog_row_metadata": {"MINIMAL", "FULL"}, "sync_binlog": {"0", "1"},
			"innodb_flush_log_at_trx_commit": {"2", "1"},
		} {
			d.exec("SET GLOBAL " + variable + " = " + values[0])
			stops(t, d.source(current()), variable, variable, "SET ")
			d.exec("SET GLOBAL " + variable + " = " + values[1])
		}
		d.exec("CREATE TABLE plain (n INT) ENGINE = MyISAM")
		o := current()
		o.Tables = []string{d.name + ".plain"}
		stops(t, d.source(o), "engine", "InnoDB")
		o.Tables = []string{d.name + ".nowhere"}
		stops(t, d.source(o), "table_missing", "rename it back if it was renamed; otherwise create it with `cdc-relay setup`")
		stops(t, d.source(binlog.Options{}), "no_checkpoint", "cdc-relay setup", "position set earliest")
	})
}

// A replica that commits in another order than its primary, or does not log what it replicates, is refused at the start and
// at every reconnect, because a reconnect may lead to another server.
func TestReplicaWithoutCommitOrder(t *testing.T) {
	d := newDatabase(t, testenv.MySQLFlavor)
	d.simple()
	d.exec("SET GLOBAL replica_preserve_commit_order = OFF")
	defer d.exec("SET GLOBAL replica_preserve_commit_order = ON")
	s := d.source(current())
	r := start(t, s, none) // the server is not a replica
	d.exec("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1, SOURCE_USER = 'nobody'")
	defer d.exec("RESET REPLICA ALL")
	d.endDumps()
	if err := r.Ended(); err == nil {
		t.Fatal("a lost connection is no error")
	}
	stops(t, s, "replica_preserve_commit_order", "another order than the primary", "SET PERSIST replica_preserve_commit_order = ON")
	stops(t, d.source(current()), "replica_preserve_commit_order")
	d.exec("SET GLOBAL replica_preserve_commit_order = ON")
	again := r.Again(none)
	d.session(insert(1))
	again.Expect(1)
}

// For a user without rights the error has a GRANT statement with all of them. After that statement the start succeeds.
func TestRights(t *testing.T) {
	onEach(t, func(d *database) {
		t := d.t
		d.simple()
		user := "r" + d.flavor + "@x"
		d.exec("CREATE USER `" + user + "`@`%` IDENTIFIED BY 'secret'")
		defer d.exec("DROP USER `" + user + "`@`%`")
		d.exec("GRANT USAGE ON *.* TO `" + user + "`@`%`")
		d.dsn = d.server.UserDSN(user, "secret", d.name, "")
		for range 2 { // on the table, and on the binlog
			found, _ := binlog.Check(t.Context(), d.options(current()), none)
			_, _, err := d.source(current()).Acquire(t.Context(), none)
			if err == nil {
				t.Fatal("a user without rights may read the binlog")
			}
			_, grant, _ := strings.Cut(cdc.Explain(err), "GRANT ")
			grant, _, _ = strings.Cut(grant, "`@`%`")
			grant = "GRANT " + grant + "`@`%`"
			if !slices.ContainsFunc(found, func(f cdc.Finding) bool { return strings.Contains(f.Text+f.Fix, grant) }) {
				t.Errorf("check does not say %s: %+v", grant, found)
			}
			d.exec(grant)
		}
		s := d.source(current())
		if _, _, err := s.Acquire(t.Context(), none); err != nil {
			t.Error(err)
		}
		s.Release(context.WithoutCancel(t.Context()))
	})
}

// A replica that takes no writes and leaves the database out of its replication is refused. One that takes writes is not: the table may be
// written there. Rules for tables are named.
func TestReplicationFilter(t *testing.T) {
	for _, c := range []struct{ flavor, ignore, source, reset string }{
		{
			testenv.MySQLFlavor, "CHANGE REPLICATION FILTER REPLICATE_IGNORE_DB = (%s), REPLICATE_IGNORE_TABLE = (%s)",
			"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1, SOURCE_USER = 'nobody'", "RESET REPLICA ALL",
		},
		{
			testenv.MariaDBFlavor, "SET GLOBAL replicate_ignore_db = '%s', GLOBAL replicate_ignore_table = '%s'",
			"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1, MASTER_USER = 'nobody'", "RESET SLAVE ALL",
		},
	} {
		t.Run(c.flavor, func(t *testing.T) {
			d := newDatabase(t, c.flavor)
			d.simple()
			d.exec(c.source)
			defer d.exec(c.reset)
			d.exec(fmt.Sprintf(c.ignore, d.name, "a.b"))
			defer d.exec(fmt.Sprintf(c.ignore, "", ""))
			start := func() (reason string) {
				s := d.source(current())
				_, _, err := s.Acquire(t.Context(), none)
				s.Release(context.WithoutCancel(t.Context()))
				if err != nil {
					reason = cdc.ReasonOf(err)
				}
				return reason
			}
			if why := start(); why != "" {
				t.Errorf("a server that takes writes is refused: %s", why)
			}
			d.exec("SET GLOBAL read_only = ON")
			defer d.exec("SET GLOBAL read_only = OFF")
			stops(t, d.source(current()), "replication_filter", "replicate-ignore-db="+d.name)
			found, _ := binlog.Check(t.Context(), d.options(current()), none)
			if !slices.ContainsFunc(found, func(f cdc.Finding) bool { return strings.Contains(f.Text, "replicate-ignore-db="+d.name) }) {
				t.Errorf("check does not name the filter: %+v", found)
			}
			d.exec(fmt.Sprintf(c.ignore, "", d.name+".outbox"))
			stops(t, d.source(current()), "replication_filter", "replicate-ignore-table="+d.name+".outbox")
			d.exec(fmt.Sprintf(c.ignore, "", "a.b"))
			if why := start(); why != "" {
				t.Errorf("without the filter: %s", why)
			}
			found, _ = binlog.Check(t.Context(), d.options(current()), none)
			if !slices.ContainsFunc(found, func(f cdc.Finding) bool { return strings.HasPrefix(f.Text, "replicate-ignore-table=a.b: ") }) {
				t.Errorf("check does not name the rule for tables: %+v", found)
			}
		})
	}
}

// Check asks MariaDB for gtid_strict_mode, without which rows of an errant transaction are skipped after a failover, and for a limit of the
// size of all binlogs.
func TestCheckOfSettings(t *testing.T) {
	d := newDatabase(t, "mariadb118")
	d.simple()
	defer d.exec("SET GLOBAL gtid_strict_mode = OFF, GLOBAL max_binlog_total_size = 0")
	for set, warns := range map[string]bool{"gtid_strict_mode = OFF": true, "gtid_strict_mode = ON": false, "max_binlog_total_size = 1099511627776": true, "max_binlog_total_size = 0": false} {
		d.exec("SET GLOBAL " + set)
		found, _ := binlog.Check(t.Context(), d.options(current()), none)
		warned := slices.ContainsFunc(found, func(f cdc.Finding) bool {
			return f.Severity != cdc.SeverityOK && strings.Contains(f.Text+f.Fix, strings.Fields(set)[0])
		})
		if warned != warns {
			t.Errorf("%s: %+v", set, found)
		}
	}
}

// A password that has expired ends a start at once, also where the server accepts the connection.
func TestExpiredPassword(t *testing.T) {
	for _, kind := range []string{"mysql", "mariadb"} {
		t.Run(kind, func(t *testing.T) {
			d := newDatabase(t, kind)
			user := fmt.Sprintf("expired_%x", time.Now().UnixNano())
			d.exec("CREATE USER " + user + " PASSWORD EXPIRE")
			t.Cleanup(func() { _ = d.server.Exec(context.WithoutCancel(t.Context()), "", "DROP USER "+user) })
			d.dsn = d.server.UserDSN(user, "", d.name, "")
			stops(t, d.source(current()), "password", "ALTER USER '"+user+"'")
		})
	}
}

package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// Setting is a setting of the server that must be another.
type Setting struct {
	Name string
	// Has is what it is, Want what it must be.
	Has, Want string
	// why is what would go wrong, in the middle of a sentence.
	why string
}

// wrong lists the settings with which no relay can work, or not safely, in the order in which a person would
// fix them.
func (v Variables) wrong(o *Options) []Setting {
	var list []Setting
	must := func(name, want, why string) {
		if !v.is(name, want) {
			list = append(list, Setting{name, v[name], want, why})
		}
	}
	must("log_bin", "ON", "so there is no binlog to read")
	if v.Flavor() == cdc.MySQL {
		must("gtid_mode", "ON", "and positions by file do not survive a failover")
	}
	const open = "and open sessions keep the old one until they reconnect"
	if v["binlog_format"] != "" {
		must("binlog_format", "ROW", "so the binlog holds statements instead of rows, "+open)
	}
	must("binlog_row_image", "FULL", "so the binlog leaves columns out, "+open)
	must("binlog_row_metadata", "FULL", "so the binlog does not name columns")
	if !o.UnsafeSync {
		must("sync_binlog", "1", "so after a crash a GTID can be used twice, and the second transaction would be skipped")
		must("innodb_flush_log_at_trx_commit", "1", "so a crash can lose transactions that were published")
	}
	return list
}

// wrongOnReplica lists the settings with which the binlog of a replica lacks transactions or reorders them. A server that
// was promoted has both in what it replicated before.
func (v Variables) wrongOnReplica() []Setting {
	var list []Setting
	for _, name := range []string{"log_replica_updates", "log_slave_updates"} { // both on MySQL, the second on MariaDB
		if _, known := v[name]; known && !v.is(name, "ON") {
			list = append(list, Setting{name, v[name], "ON", "and this server is a replica, so what it replicates is not in its binlog"})
			break
		}
	}
	for _, prefix := range []string{"replica_", "slave_"} { // the first from MySQL 8.0.26 on; MariaDB always keeps the order
		order, workers := prefix+"preserve_commit_order", v[prefix+"parallel_workers"]
		if _, known := v[order]; known && !v.is(order, "ON") && workers != "0" && workers != "1" {
			list = append(list, Setting{order, v[order], "ON", "and this server is a replica, so it commits in another order than the primary"})
			break
		}
	}
	return list
}

// ReplicaProblem is asked at every connect, because that may lead to another server.
func (v Variables) ReplicaProblem(ctx context.Context, db *sql.DB) error {
	if list := v.wrongOnReplica(); len(list) > 0 && readReplica(ctx, db, v.Flavor()).configured {
		return list[0].problem(v.Flavor())
	}
	return nil
}

// problem is the setting as an error with its fix.
func (s Setting) problem(f cdc.Flavor) error {
	return cdc.ConfigError(s.Name, s.fix(f), "%s is %s, not %s, %s", s.Name, cmp.Or(s.Has, "not set"), s.Want, s.why)
}

// SQL returns the statements that change the setting, for now and after a restart. For one that a running server cannot change, the statement
// only shows the value, and its comment has the line for my.cnf. MariaDB has no SET PERSIST.
func (s Setting) SQL(f cdc.Flavor) []outbox.Statement {
	set := outbox.Statement{SQL: "SET PERSIST " + s.Name + " = " + s.Want}
	file := "in my.cnf under [mysqld]: " + s.Name + " = " + s.Want
	if f == cdc.MariaDB {
		file = "in my.cnf under [mariadb]: " + s.Name + " = " + s.Want
		set = outbox.Statement{Comment: "And for the next start, " + file, SQL: "SET GLOBAL " + s.Name + " = " + s.Want}
	}
	switch s.Name {
	case "log_bin":
		set = outbox.Statement{Comment: "It needs a restart, " + file, SQL: "SELECT @@global.log_bin"}
	case "gtid_mode":
		return s.gtidsOn()
	case "binlog_format", "binlog_row_image":
		set.Comment = strings.TrimPrefix(set.Comment+"\nOpen connections keep the old value until they reconnect.", "\n")
	}
	return []outbox.Statement{set}
}

// gtidsOn leads from the present mode to ON in the only way that a running server allows, one step at a time (MySQL manual, "Changing GTID
// Mode on Online Servers"), and never back to transactions without GTIDs. These are behind no position: the server sends nothing of them.
func (s Setting) gtidsOn() []outbox.Statement {
	statements := []outbox.Statement{{
		Comment: "One step at a time; leave out completed steps (SELECT @@global.gtid_mode).\n" +
			"On a server with replicas each step must be taken on all of them before the next.",
		SQL: "SET PERSIST enforce_gtid_consistency = ON",
	}}
	modes := []string{"OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"}
	for _, mode := range modes[slices.Index(modes, s.Has)+1:] {
		statements = append(statements, outbox.Statement{SQL: "SET PERSIST gtid_mode = " + mode})
	}
	statements[len(statements)-1].Comment = "Once SHOW STATUS LIKE 'ONGOING_ANONYMOUS_TRANSACTION_COUNT' says 0."
	return statements
}

// thenPublish follows the fix of a setting: no position tells what was written meanwhile without a GTID, or is not in this binlog.
const thenPublish = "; if a relay has published from this server before, then publish the rows since a time before this setting was wrong with `cdc-relay repair --since TIME`"

// fix is how the setting is changed for good.
func (s Setting) fix(f cdc.Flavor) string {
	switch s.Name {
	case "log_bin":
		return "set log_bin in the server's configuration and restart it (managed services: switch backups on)" + thenPublish
	case "gtid_mode":
		var steps []string
		for _, step := range s.gtidsOn() {
			steps = append(steps, "`"+step.SQL+"`")
		}
		return "run " + strings.Join(steps, ", ") + ", one after the other, each on all replicas too before the next, the last once ONGOING_ANONYMOUS_TRANSACTION_COUNT is 0" + thenPublish
	case "log_replica_updates", "log_slave_updates":
		return "point source.mysql.dsn at the primary, or set " + s.Name + " in the server's configuration and restart it" + thenPublish
	case "replica_preserve_commit_order", "slave_preserve_commit_order":
		return "STOP REPLICA SQL_THREAD, SET PERSIST " + s.Name + " = ON, START REPLICA SQL_THREAD"
	case "sync_binlog", "innodb_flush_log_at_trx_commit":
		return change(f, s.Name, s.Want) + ", or accept it with source.mysql.unsafe_sync_binlog: true"
	default:
		return change(f, s.Name, s.Want)
	}
}

// FixGTIDMode is what to do first if the server gave transactions no GTIDs for a while.
const FixGTIDMode = "set gtid_mode to ON (`cdc-relay check` prints the statements)"

// change is a statement that changes a setting for good.
func change(f cdc.Flavor, name, value string) string {
	sql := Setting{Name: name, Want: value}.SQL(f)[0].SQL
	if f == cdc.MariaDB {
		sql += ", and the same in the server's configuration"
	}
	return sql + " (managed services: their parameter)"
}

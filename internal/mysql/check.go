package mysql

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// checkTimeout bounds the whole check.
const checkTimeout = 30 * time.Second

// checker gathers findings about one server.
type checker struct {
	db     *Database
	opts   Options
	report cdc.Report
}

// Check verifies what a run needs from the server and changes nothing; resume is asked where a run would go on. It also returns the
// configured tables that exist, so that their columns can be checked.
func Check(ctx context.Context, o Options, resume func(context.Context, *Database) (in cdc.Inspection, unreadable, err error)) ([]cdc.Finding, map[string]*cdc.Table) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	c := &checker{opts: o}
	db, err := OpenDatabase(ctx, o)
	if err != nil {
		c.report.Fail("connection", err)
		return c.report.Findings, nil
	}
	defer db.Close()
	c.db = db
	c.connection()
	c.role(ctx)
	if !c.server(ctx) {
		return c.report.Findings, nil
	}
	tables := c.tables(ctx)
	c.partitions(ctx)
	c.limits(ctx)
	c.semiSync()
	asked := time.Now()
	if now, err := c.db.now(ctx); err == nil {
		c.report.Clock(asked, now)
	}
	c.replication(ctx, resume)
	return c.report.Findings, tables
}

func (c *checker) connection() {
	s := c.db.Server
	c.report.Connection(fmt.Sprintf("%s %s at %s answers: database %q, user %s", s.Flavor.Title(), s.Name, s.Address, s.Database, s.Role), s.TLS, s.Verified, "set source.mysql.tls, with the server's authority in ca")
}

// role warns of a user that may do everything.
func (c *checker) role(ctx context.Context) {
	grants, err := c.db.Names(ctx, "read the user's rights", `SHOW GRANTS`)
	if err != nil {
		c.report.Info("role", "", "the user's rights cannot be read (%v)", err)
		return
	}
	for _, grant := range grants {
		if strings.HasPrefix(grant, "GRANT ALL PRIVILEGES ON *.* ") || strings.Contains(grant, " SUPER,") {
			c.report.Warn("role", "make a user of its own; `cdc-relay setup --print` prints what it must be granted",
				"user %s may do everything: the relay needs to read only the binlog and its tables", c.db.Server.Role)
			return
		}
	}
}

// server tells whether there is any use in going on.
func (c *checker) server(ctx context.Context) bool {
	s := &c.db.Server
	wrong := c.db.Settings(c.opts)
	for _, w := range wrong {
		c.report.Fail("server", w.problem(s.Flavor))
	}
	if len(wrong) == 0 {
		if err := c.db.Problem(c.opts); err != nil {
			c.report.Fail("server", err)
			return false
		}
		if err := c.db.Filtered(ctx, c.opts); err != nil {
			c.report.Fail("server", err)
			return false
		}
		c.report.OK("server", "the binlog holds rows in full, with the names of their columns, and GTIDs")
	}
	if text, fix := c.db.vars.Untested(); text != "" {
		c.report.Warn("server", fix, "%s", text)
	}
	if c.opts.UnsafeSync && len(c.db.vars.wrong(&Options{})) > len(wrong) {
		c.report.Warn("server", change(s.Flavor, "sync_binlog", "1")+" and innodb_flush_log_at_trx_commit too, and remove source.mysql.unsafe_sync_binlog",
			"sync_binlog is %s and innodb_flush_log_at_trx_commit %s: after a crash of the server an event may never be published",
			c.db.vars["sync_binlog"], c.db.vars["innodb_flush_log_at_trx_commit"])
	}
	return c.db.vars.is("log_bin", "ON") && (s.Flavor == cdc.MariaDB || c.db.vars.is("gtid_mode", "ON"))
}

func (c *checker) tables(ctx context.Context) map[string]*cdc.Table {
	survey, err := c.db.Survey(ctx, c.opts)
	switch {
	case err != nil:
		c.report.Fail("tables", err)
	case survey.Problem != nil:
		c.report.Fail("tables", survey.Problem)
	default:
		c.report.OK("tables", "%s: found, engine InnoDB", strings.Join(c.opts.Tables, ", "))
	}
	return survey.Tables
}

// leastRetention is how long a relay should be able to be down without losing its place.
const leastRetention = 24 * time.Hour

// limits looks at settings that purge the binlog, end the relay's connection or reorder a replica.
func (c *checker) limits(ctx context.Context) {
	v := c.db.vars
	if seconds, err := strconv.ParseInt(v["binlog_expire_logs_seconds"], 10, 64); err == nil {
		keeps := time.Duration(seconds) * time.Second
		switch {
		case seconds > 0 && keeps < leastRetention:
			c.report.Warn("limits", change(c.db.Server.Flavor, "binlog_expire_logs_seconds", "604800"),
				"binlog_expire_logs_seconds is %d: a relay that is stopped for longer than %s loses its place", seconds, keeps)
		case v["max_binlog_total_size"] > "0": // from MariaDB 11.4 on; a number
			c.report.Info("limits", "", "max_binlog_total_size is %s: a relay that is stopped while more bytes are written loses its place", v["max_binlog_total_size"])
		case seconds == 0:
			c.report.Info("limits", "", "binlog_expire_logs_seconds is 0: the server keeps its binlogs until they are purged by hand (RDS: by `binlog retention hours`)")
		default:
			c.report.OK("limits", "the server keeps binlogs for %.1f days: a relay may be stopped that long", keeps.Hours()/24)
		}
	}
	if v.is("gtid_strict_mode", "OFF") { // on MariaDB. No start can tell: servers that were primaries in turn have the same binlog state
		c.report.Warn("replica", change(c.db.Server.Flavor, "gtid_strict_mode", "ON")+", on each replica too",
			"gtid_strict_mode is OFF: rows that were written to a replica alone can be skipped once it is promoted")
	}
	if !readReplica(ctx, c.db.DB, c.db.Server.Flavor).configured {
		return
	}
	for _, w := range v.wrongOnReplica() {
		c.report.Fail("replica", w.problem(c.db.Server.Flavor))
	}
	c.tableRules(ctx)
}

// leastSemiSync is the shortest semi-sync timeout that is no warning.
const leastSemiSync = time.Hour

// semiSync warns of a primary that makes rows visible, and so has events published, that a failover to a replica can lose.
func (c *checker) semiSync() {
	f, v := c.db.Server.Flavor, c.db.vars
	prefix := "rpl_semi_sync_source_"
	if !v.is(prefix+"enabled", "ON") {
		prefix = "rpl_semi_sync_master_" // MariaDB, and MySQL with the older plugin
	}
	if !v.is(prefix+"enabled", "ON") {
		return
	}
	if point := prefix + "wait_point"; v.is(point, "AFTER_COMMIT") {
		c.report.Warn("visibility", change(f, point, "'AFTER_SYNC'"),
			"%s is AFTER_COMMIT: rows are visible before a replica has them, so a failover can lose rows whose events are published", point)
	}
	timeout := prefix + "timeout"
	if ms, err := strconv.ParseInt(v[timeout], 10, 64); err == nil && time.Duration(ms)*time.Millisecond < leastSemiSync {
		c.report.Warn("visibility", change(f, timeout, "4294967295")+", if commits may wait while no replica runs",
			"%s is %d ms: after that commits wait for no replica, so a failover can lose rows whose events are published", timeout, ms)
	}
}

// replication verifies that this user may read the binlog from here.
func (c *checker) replication(ctx context.Context, resume func(context.Context, *Database) (in cdc.Inspection, unreadable, err error)) {
	in, unreadable, err := resume(ctx, c.db)
	if unreadable != nil { // the server does not send its binlog to this user
		c.report.Fail("replication", unreadable)
		return
	}
	c.report.OK("replication", "the server sends its binlog to this user")
	switch {
	case err != nil:
		c.report.Fail("positions", err)
	case !in.Known(): // the checkpoint's own finding
	case in.Refused != nil:
		c.report.Fail("positions", in.Refused)
	default:
		c.report.OK("positions", "a run resumes at %s", in.From)
	}
}

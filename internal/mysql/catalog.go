package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// The oldest servers that are accepted. MySQL has SHOW REPLICA STATUS from 8.0.22 on; releases before
// 8.4 are accepted with a warning, because no test runs on them.
const (
	minMySQL    = "8.0.22"
	warnedMySQL = "8.4.0"
	minMariaDB  = "10.11.0"
)

// Variables are the server's settings that matter here, by name, as it prints them; what it does not know is
// missing.
type Variables map[string]string

// readVariables asks for them, and for no others.
const readVariables = `SHOW GLOBAL VARIABLES WHERE Variable_name IN (
	'hostname', 'port', 'server_id', 'server_uuid', 'server_uid',
	'version', 'log_bin', 'gtid_mode', 'binlog_format', 'binlog_row_image', 'binlog_row_metadata', 'sync_binlog',
	'innodb_flush_log_at_trx_commit', 'binlog_expire_logs_seconds', 'log_replica_updates', 'log_slave_updates',
	'replica_preserve_commit_order', 'slave_preserve_commit_order',
	'replica_parallel_workers', 'slave_parallel_workers', 'read_only', 'lower_case_table_names',
	'binlog_optimize_thread_scheduling', 'binlog_storage_engine', 'gtid_strict_mode', 'max_binlog_total_size',
	'rpl_semi_sync_master_enabled', 'rpl_semi_sync_master_timeout', 'rpl_semi_sync_master_wait_point',
	'rpl_semi_sync_source_enabled', 'rpl_semi_sync_source_timeout', 'rpl_semi_sync_source_wait_point')`

// ReadVariables reads them.
func ReadVariables(ctx context.Context, db querier) (Variables, error) {
	vars := Variables{}
	var name, value string
	return vars, eachRow(ctx, db, "read the server's settings", func() { vars[strings.ToLower(name)] = value }, []any{&name, &value}, readVariables)
}

// Flavor is the kind of server.
func (v Variables) Flavor() cdc.Flavor {
	if strings.Contains(v["version"], "MariaDB") {
		return cdc.MariaDB
	}
	return cdc.MySQL
}

func (v Variables) is(name, want string) bool { return strings.EqualFold(v[name], want) }

// readsOnly is whether a server with this value of read_only takes no writes. MariaDB 12 also knows NO_LOCK and NO_LOCK_NO_ADMIN.
func readsOnly(value string) bool {
	return value != "" && value != "0" && !strings.EqualFold(value, "OFF")
}

// version is the first number of a version such as 10.11.14-MariaDB-log, in the form 101114.
func version(text string) int {
	text, _, _ = strings.Cut(text, "-")
	v := 0
	parts := strings.Split(text, ".")
	for i := range 3 {
		n := 0
		if i < len(parts) {
			n, _ = strconv.Atoi(parts[i])
		}
		v = v*100 + n
	}
	return v
}

// Untested says that no test runs on such a server, and what to do about it; "" where tests run on it or on a neighbouring release.
func (v Variables) Untested() (text, fix string) {
	if v.Flavor() == cdc.MariaDB || version(v["version"]) >= version(warnedMySQL) {
		return "", ""
	}
	return fmt.Sprintf("MySQL %s has all that the relay needs, but the relay is not tested on releases before 8.4", v["version"]), "upgrade to MySQL 8.4 or newer when you can"
}

// Problem says why no relay can work on such a server, or why it would not be safe.
func (v Variables) Problem(o *Options) error {
	f, oldest := v.Flavor(), minMySQL
	if f == cdc.MariaDB {
		oldest = minMariaDB
	}
	switch {
	case version(v["version"]) < version(oldest):
		return cdc.ConfigError("version", "upgrade the server to "+oldest+" or newer", "%s %s is too old: the relay needs %s or newer", f.Title(), v["version"], oldest)
	case v.is("binlog_storage_engine", "innodb"): // MariaDB 12.3 and newer
		return cdc.ConfigError("binlog_storage_engine",
			"remove it from the server's configuration and restart the server, which then writes its binlog to files"+thenPublish,
			"binlog_storage_engine is innodb, and the relay cannot find its position in such a binlog")
	}
	if list := v.wrong(o); len(list) > 0 {
		return list[0].problem(f) // the others may hang on it
	}
	if o.WaitUntilVisible && v.is("binlog_optimize_thread_scheduling", "OFF") { // see snapshot
		return cdc.ConfigError("binlog_optimize_thread_scheduling",
			"remove it from the server's configuration and restart the server, or set source.mysql.wait_until_visible: false",
			"binlog_optimize_thread_scheduling is OFF, so the server does not tell which transactions are visible")
	}
	return nil
}

// ReadGTIDs reads where the server's log stands.
func ReadGTIDs(ctx context.Context, db *sql.DB, f cdc.Flavor) (executed, purged Set, err error) {
	if f == cdc.MariaDB {
		return readMariaDB(ctx, db)
	}
	var has, gone string
	// Not SHOW VARIABLES, which cuts at 1,024 bytes.
	if err := db.QueryRowContext(ctx, `SELECT @@GLOBAL.gtid_executed, @@GLOBAL.gtid_purged`).Scan(&has, &gone); err != nil {
		return nil, nil, fmt.Errorf("read where the binlog stands: %w", err)
	}
	return parseBoth(f, has, gone)
}

// readMariaDB asks for the last GTIDs of the binlog, and for those before its oldest file.
func readMariaDB(ctx context.Context, db *sql.DB) (executed, purged Set, err error) {
	var has string
	if err := db.QueryRowContext(ctx, `SELECT @@GLOBAL.gtid_binlog_pos`).Scan(&has); err != nil {
		return nil, nil, fmt.Errorf("read where the binlog stands: %w", err)
	}
	oldest, err := oldestLog(ctx, db)
	if err != nil {
		return nil, nil, err
	}
	var gone sql.NullString
	if err := db.QueryRowContext(ctx, `SELECT BINLOG_GTID_POS(?, 4)`, oldest).Scan(&gone); err != nil {
		return nil, nil, fmt.Errorf("read where the binlog begins: %w", err)
	}
	return parseBoth(cdc.MariaDB, has, gone.String)
}

// listLogs and binlogStatus hang while two groups of commits wait for a replica.
const (
	listLogs     = "SHOW BINARY LOGS"
	binlogStatus = "SHOW BINLOG STATUS"
)

// stuckAfter is when a statement that takes milliseconds counts as one that hangs.
const stuckAfter = 2 * time.Second

func oldestLog(ctx context.Context, db *sql.DB) (string, error) {
	if err := notStuck(ctx, db); err != nil {
		return "", err
	}
	var name string
	err := eachShown(ctx, db, listLogs, func(shown map[string]string) { name = cmp.Or(name, shown["log_name"]) })
	switch code, said := ErrorNumber(err); {
	case code == gomysql.ER_SPECIFIC_ACCESS_DENIED_ERROR:
		return "", cdc.ConfigError(noPrivilege, GrantLog(cdc.MariaDB, Account(ctx, db)), "user may not list the binlog files (%s)", said)
	case err != nil && code == 0 && ctx.Err() == nil:
		return "", listHangs(err)
	case err == nil && name == "":
		err = errors.New("there is none")
	}
	if err != nil {
		return "", fmt.Errorf("list the binlog files: %w", err)
	}
	return name, nil
}

// notStuck returns an error if the list that an earlier attempt asked for still hangs: the server keeps the thread of each when its client
// is gone, and attempts would use up max_connections.
func notStuck(ctx context.Context, db *sql.DB) error {
	var stuck int
	err := db.QueryRowContext(ctx, `SELECT COUNT(*) FROM information_schema.processlist WHERE info IN (?, ?) AND time_ms > ?`, listLogs, binlogStatus, stuckAfter.Milliseconds()).Scan(&stuck)
	switch {
	case err != nil:
		return fmt.Errorf("look for statements that hang: %w", err)
	case stuck > 0:
		return listHangs(errors.New("an earlier attempt still waits for the list"))
	}
	return nil
}

func listHangs(err error) error {
	return cdc.Fixable(FixCommitsWait, "server does not list its binlog files, as while commits wait (%w)", err)
}

func parseBoth(f cdc.Flavor, has, gone string) (executed, purged Set, err error) {
	if executed, err = ParseSet(f, has); err != nil {
		return nil, nil, fmt.Errorf("read where the binlog stands: %w", err)
	}
	if purged, err = ParseSet(f, gone); err != nil {
		return nil, nil, fmt.Errorf("read where the binlog begins: %w", err)
	}
	return executed, purged, nil
}

// FixCommitsWait is the fix if commits do not end.
const FixCommitsWait = "see in SHOW PROCESSLIST what commits wait for; if it is a semi-sync replica, start one, or turn semi-sync replication off"

// SnapshotPosition returns a position that is not behind the commit of anything that a snapshot taken from now on does not show. MySQL adds a GTID to
// gtid_executed once the engine has committed. MariaDB's gtid_binlog_pos is ahead of the engine, but it tells what a snapshot shows.
func SnapshotPosition(ctx context.Context, db *sql.DB, f cdc.Flavor, executed Set) (position cdc.Position, err error) {
	if f == cdc.MySQL {
		return cdc.Position(executed.String()), nil
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return "", fmt.Errorf("read where the binlog stands: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, "START TRANSACTION WITH CONSISTENT SNAPSHOT"); err != nil {
		return "", fmt.Errorf("read where the binlog stands: %w", err)
	}
	var name, file, place string
	var gtids sql.NullString
	err = conn.QueryRowContext(ctx, "SHOW STATUS LIKE 'binlog_snapshot_file'").Scan(&name, &file)
	if err == nil {
		err = conn.QueryRowContext(ctx, "SHOW STATUS LIKE 'binlog_snapshot_position'").Scan(&name, &place)
	}
	if err == nil {
		err = conn.QueryRowContext(ctx, "SELECT BINLOG_GTID_POS(?, ?)", file, place).Scan(&gtids)
	}
	if err == nil && !gtids.Valid {
		err = fmt.Errorf("MariaDB does not know the GTIDs of %s:%s", file, place)
	}
	if err == nil {
		_, err = conn.ExecContext(ctx, "ROLLBACK")
	}
	if err != nil {
		return "", fmt.Errorf("read where the binlog stands: %w", err)
	}
	set, err := ParseSet(f, gtids.String)
	if err != nil {
		return "", err
	}
	return cdc.Position(set.String()), nil
}

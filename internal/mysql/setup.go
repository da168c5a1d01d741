package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-sql-driver/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Database is an ordinary connection for the commands around a run: setup, teardown, check and position.
// It is not safe for concurrent use.
type Database struct {
	DB     *sql.DB
	rows   *sql.Conn // of the first Rows.Verify
	Config *mysql.Config
	vars   Variables
	// canceller ends statements of db that wait; nil: not needed so far.
	canceller *sql.DB
	// Server is what the connection leads to.
	Server Server
}

// Server describes a server and who we are there.
type Server struct {
	// Name is the version as people know it.
	Name   string
	Flavor cdc.Flavor
	// Address is host:port, or the path of a socket. ID tells servers apart, whatever the address.
	Address, ID string
	// Database is the DSN's, Role the account that the server took us for, user@host.
	Database, Role string
	// ReadOnly is a server that takes no writes, such as a replica.
	ReadOnly bool
	// TLS is the protocol's name; "" without TLS. Verified is whether the certificate was checked.
	TLS      string
	Verified bool
}

// execTimeout is how long a statement of setup may take.
const execTimeout = time.Minute

// OpenDatabase connects. The caller closes it. Of o it looks at the connection only.
func OpenDatabase(ctx context.Context, o Options) (*Database, error) {
	cfg, err := o.Endpoint(ctx)
	if err != nil {
		return nil, err
	}
	cfg.ReadTimeout = execTimeout
	db, err := Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	d := &Database{DB: db, Config: cfg}
	if err := d.identify(ctx); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Close ends the connection.
func (d *Database) Close() {
	if d.rows != nil {
		_ = d.rows.Close()
	}
	_ = d.DB.Close()
	if d.canceller != nil {
		_ = d.canceller.Close()
	}
}

func (d *Database) identify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	var err error
	if d.vars, err = ReadVariables(ctx, d.DB); err != nil {
		return err
	}
	s := &d.Server
	s.Flavor, s.Address, s.Database = d.vars.Flavor(), d.Config.Addr, d.Config.DBName
	s.Name, _, _ = strings.Cut(d.vars["version"], "-") // 10.11.14-MariaDB-log
	s.ReadOnly = readsOnly(d.vars["read_only"])
	s.ID = strings.Join([]string{d.vars["server_uuid"], d.vars["server_uid"], d.vars["hostname"], d.vars["port"], d.vars["server_id"]}, " ")
	if err := d.DB.QueryRowContext(ctx, `SELECT CURRENT_USER()`).Scan(&s.Role); err != nil {
		return fmt.Errorf("read the connection's user: %w", err)
	}
	var name string
	if err := d.DB.QueryRowContext(ctx, `SHOW SESSION STATUS LIKE 'Ssl_version'`).Scan(&name, &s.TLS); err != nil {
		return fmt.Errorf("read the connection's protocol: %w", err)
	}
	s.Verified = s.TLS != "" && d.Config.TLS != nil && !d.Config.TLS.InsecureSkipVerify
	return nil
}

// Problem says why no relay can work on such a server, or would not be safe; nil: none.
func (d *Database) Problem(o Options) error { return d.vars.Problem(&o) }

// Filtered returns an error if the server leaves rows of a configured table out of its binlog.
func (d *Database) Filtered(ctx context.Context, o Options) error {
	if !d.vars.is("log_bin", "ON") {
		return nil // a problem of its own
	}
	return d.vars.Filtered(ctx, d.DB, o.Tables)
}

// Settings are the server's settings that must change before a relay can work.
func (d *Database) Settings(o Options) []Setting { return d.vars.wrong(&o) }

// Survey is what a server holds of what the relay needs.
type Survey struct {
	// Tables are the configured tables that exist and that the user may see, by name.
	Tables map[string]*cdc.Table
	// Problem is why one of them cannot be relayed.
	Problem error
}

// Survey looks for the configured tables.
func (d *Database) Survey(ctx context.Context, o Options) (Survey, error) {
	var s Survey
	var err error
	if s.Tables, err = ReadTables(ctx, d.DB, o.Tables, d.vars.Caseless()); err != nil {
		return s, err
	}
	if s.Problem = CheckTables(ctx, d.DB, o.Tables, d.vars.Caseless()); s.Problem != nil && cdc.ReasonOf(s.Problem) == "" {
		return s, s.Problem
	}
	return s, nil
}

// Exec runs statements one after the other on one connection; MySQL commits each change of a schema by
// itself. doing is what they do, for errors: "create table orders.outbox".
func (d *Database) Exec(ctx context.Context, doing string, statements ...string) error {
	conn, err := d.DB.Conn(ctx)
	if err != nil {
		return connectError(err, d.Config)
	}
	defer func() { _ = conn.Close() }()
	for _, statement := range append([]string{writes}, statements...) {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return d.execError(doing, err)
		}
	}
	return nil
}

// Names returns the first column of a query. doing is what it does, for errors.
func (d *Database) Names(ctx context.Context, doing, query string) ([]string, error) {
	return firstColumn(ctx, d.DB, doing, query)
}

// noPrivilege is the reason when the user lacks a right.
const noPrivilege = "no_privilege"

func (d *Database) execError(doing string, err error) error {
	code, said := ErrorNumber(err)
	switch code {
	case 0:
		return fmt.Errorf("%s: %w", doing, err)
	case gomysql.ER_ACCESS_DENIED_ERROR, gomysql.ER_DBACCESS_DENIED_ERROR, gomysql.ER_TABLEACCESS_DENIED_ERROR, gomysql.ER_SPECIFIC_ACCESS_DENIED_ERROR, gomysql.ER_CANT_CREATE_USER_WITH_GRANT, gomysql.ER_PROCACCESS_DENIED_ERROR:
		return cdc.ConfigError(noPrivilege, "connect as one that may with --owner-dsn, or hand the SQL of --print to its owner", "%s: user %s may not (%s)", doing, d.Server.Role, said)
	case gomysql.ER_OPTION_PREVENTS_STATEMENT, gomysql.ER_READ_ONLY_MODE:
		return cdc.ConfigError("read_only", "connect to the primary", "%s: %s takes no writes (%s)", doing, d.Server.Address, said)
	}
	return fmt.Errorf("%s: %s: %s (%d)", doing, d.Server.Flavor.Title(), said, code)
}

// HasRows reports whether a table, quoted, has a row.
func (d *Database) HasRows(ctx context.Context, table string) (rows bool, err error) {
	if err := d.DB.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM "+table+")").Scan(&rows); err != nil {
		return false, fmt.Errorf("look for rows of %s: %w", table, err)
	}
	return rows, nil
}

// Source is the binlog's identity, as checkpoints name it.
func (d *Database) Source(o Options) cdc.Source {
	return o.Source(d.Server.Flavor, d.Server.Database)
}

// MayNotRead reports whether err says that the user lacks the right to read the binlog.
func MayNotRead(err error) bool {
	reason := cdc.ReasonOf(err)
	return reason == "no_replication" || reason == noPrivilege
}

// firstColumn returns the first column of a query.
func firstColumn(ctx context.Context, db querier, doing, query string) (list []string, err error) {
	var text string
	err = eachRow(ctx, db, doing, func() { list = append(list, text) }, []any{&text}, query)
	return list, err
}

// eachRow calls row for each row of a query, once its columns are in to. doing is what the query does, for errors.
func eachRow(ctx context.Context, db querier, doing string, row func(), to []any, query string, args ...any) error {
	err := scanEach(ctx, db, row, to, query, args...)
	if err != nil {
		err = fmt.Errorf("%s: %w", doing, err)
	}
	return err
}

func scanEach(ctx context.Context, db querier, row func(), to []any, query string, args ...any) error {
	found, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		if err := found.Scan(to...); err != nil {
			return err
		}
		row()
	}
	return found.Err()
}

// eachShown calls row for each row of a SHOW or EXPLAIN statement with its columns by name, in lower case: servers differ in which there are.
func eachShown(ctx context.Context, db querier, query string, row func(map[string]string), args ...any) error {
	found, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = found.Close() }()
	columns, err := found.Columns()
	if err != nil {
		return err
	}
	values, to, shown := make([]sql.NullString, len(columns)), make([]any, len(columns)), map[string]string{}
	for i := range values {
		to[i] = &values[i]
	}
	for found.Next() && found.Scan(to...) == nil {
		for i, name := range columns {
			shown[strings.ToLower(name)] = values[i].String
		}
		row(shown)
	}
	return found.Err()
}

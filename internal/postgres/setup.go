package postgres

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// Database is an ordinary connection for the commands around a run: setup, teardown, check and position.
// It is not safe for concurrent use.
type Database struct {
	// Conn is for single statements of the caller.
	Conn *pgx.Conn
	// Server is what the connection leads to.
	Server Server
}

// Server describes a server and who we are there.
type Server struct {
	// Version is server_version_num (150018), Name the server_version that people know (15.18).
	Version int
	Name    string
	// Address is host:port, or the path of a socket.
	Address                  string
	Database, Role, WALLevel string
	Superuser                bool
	// Started is when the server started, which tells it apart; see [StartedQuery].
	Started string
	// Standby is a server in recovery, which takes no writes.
	Standby bool
	// TLS is the protocol's name; "" without TLS. Verified is whether the certificate was checked.
	TLS      string
	Verified bool
}

// Problem says why no relay can work on such a server; nil: none.
func (s *Server) Problem() error { return ServerProblem(s.Version, s.WALLevel) }

// OpenDatabase connects. The caller closes it.
func OpenDatabase(ctx context.Context, o Options) (*Database, error) {
	conn, err := Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	d := &Database{Conn: conn}
	if err := d.identify(ctx); err != nil {
		d.Close(ctx)
		return nil, err
	}
	return d, nil
}

// Close ends the connection.
func (d *Database) Close(ctx context.Context) { CloseConn(ctx, d.Conn.PgConn()) }

func (d *Database) identify(ctx context.Context) error {
	s := &d.Server
	err := d.Conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_database(),
		current_user, current_setting('is_superuser') = 'on', current_setting('wal_level'), pg_is_in_recovery(), (`+StartedQuery+`)`).
		Scan(&s.Version, &s.Name, &s.Database, &s.Role, &s.Superuser, &s.WALLevel, &s.Standby, &s.Started)
	if err != nil {
		return fmt.Errorf("read the server's version: %w", err)
	}
	s.Name, _, _ = strings.Cut(s.Name, " ") // "15.18 (Debian 15.18-0+deb12u1)"
	cfg := d.Conn.Config()
	s.Address = address(&cfg.Config)
	if secure, ok := d.Conn.PgConn().Conn().(*tls.Conn); ok {
		state := secure.ConnectionState()
		s.TLS, s.Verified = tls.VersionName(state.Version), len(state.VerifiedChains) > 0
	}
	return nil
}

// Survey is what a database holds of what the relay needs.
type Survey struct {
	PublicationState

	// Tables are the configured tables that exist, by name.
	Tables map[string]*cdc.Table
	// Publication is whether it exists.
	Publication bool
	// Slot is nil when there is none.
	Slot *SlotInfo
}

// SlotInfo is a slot as it stands.
type SlotInfo struct {
	SlotRow

	// Problem is why the relay cannot use it.
	Problem error
}

// Survey looks for the configured tables, the publication and the slot.
func (d *Database) Survey(ctx context.Context, o Options) (Survey, error) {
	var s Survey
	var err error
	if s.Tables, _, err = ReadTables(ctx, d.Conn, o, o.Tables); err != nil {
		return s, err
	}
	if s.PublicationState, err = ReadPublication(ctx, d.Conn, o, d.Server.Version); err != nil {
		return s, err
	}
	if s.Publication = s.Fingerprint != nil; !s.Publication { // which could not be made
		var name, quoted, kind string
		err := d.Conn.QueryRow(ctx, `SELECT n.nspname || '.' || c.relname, format('%I.%I', n.nspname, c.relname), c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname || '.' || c.relname = ANY($1) AND c.relpersistence <> 'p' LIMIT 1`, o.Tables).Scan(&name, &quoted, &kind)
		if err == nil {
			s.Problem = notLogged(name, quoted, kind)
		}
	}
	s.Slot, err = d.Slot(ctx, o.Slot)
	return s, err
}

// Slot returns the slot, or nil when there is none.
func (d *Database) Slot(ctx context.Context, name string) (*SlotInfo, error) {
	row, err := ReadSlot(ctx, d.Conn, name)
	if cdc.ReasonOf(err) == SlotMissing {
		return nil, nil //nolint:nilnil // no slot is an answer
	}
	if err != nil {
		return nil, err
	}
	return &SlotInfo{row, row.Usable(name, d.Server.Database)}, nil
}

// Exec runs statements, several in one transaction. doing is what they do, for errors: "create publication p".
func (d *Database) Exec(ctx context.Context, doing string, statements ...string) error {
	if len(statements) > 1 {
		statements = append(append([]string{"BEGIN"}, statements...), "COMMIT")
	}
	for _, sql := range statements {
		if _, err := d.Conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			_, _ = d.Conn.PgConn().Exec(ctx, "ROLLBACK").ReadAll() // a warning outside of a transaction
			return d.ExecError(ctx, doing, err)
		}
	}
	return nil
}

// Names returns the first column of a query.
func (d *Database) Names(ctx context.Context, doing, query string) ([]string, error) {
	rows, _ := d.Conn.Query(ctx, query) // CollectRows returns its error
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return names, nil
}

// Become takes the role of a table's owner: what is made from now on belongs to that. A superuser may, and a member of the role.
func (d *Database) Become(ctx context.Context, table string) error {
	_, err := d.Conn.Exec(ctx, `SELECT set_config('role', pg_get_userbyid(relowner), false)
		FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname || '.' || relname = $1`, table)
	if err != nil {
		return d.ExecError(ctx, "become the owner of "+table, err)
	}
	return nil
}

// noPrivilege is the reason when the role lacks a right.
const noPrivilege = "no_privilege"

// ExecError maps what the server says of a statement; doing is what that does.
func (d *Database) ExecError(ctx context.Context, doing string, err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	switch pg.Code {
	case stateInsufficientPrivilege:
		if pg.Message == "permission denied for schema "+outbox.PartitionSchema {
			return cdc.ConfigError(noPrivilege, fmt.Sprintf("run `GRANT USAGE, CREATE ON SCHEMA %s TO %s` as the schema's owner, and then the same command", outbox.PartitionSchema, pgx.Identifier{d.Server.Role}.Sanitize()),
				"%s: role %q may not use schema %s, which another role owns", doing, d.Server.Role, outbox.PartitionSchema)
		}
		return cdc.ConfigError(noPrivilege, "connect as one that may with --owner-dsn, or hand the SQL of --print to its owner", "%s: role %q may not (%s)", doing, d.Server.Role, pg.Message)
	case stateInvalidSchemaName:
		return cdc.ConfigError("schema_missing", "correct tables[].name, or create the schema", "%s: %s", doing, pg.Message)
	case stateQueryCanceled:
		return cdc.Fixable("try again when it is less busy", "%s: PostgreSQL was not done after %s%s", doing, ExecTimeout, d.Oldest(ctx))
	case stateLockNotAvailable:
		return cdc.Fixable("end the transactions that use it, or wait for their end, then run the same command again", "%s: a table is in use by other transactions (open: %s)", doing, cmp.Or(d.Open(ctx), "not known"))
	case stateReadOnly:
		return cdc.ConfigError("standby", "connect to the primary", "%s: %s is a standby, which takes no writes", doing, d.Server.Address)
	case stateConfigurationLimitExceeded, stateObjectNotInPrerequisiteState:
		if err := ReplicationError(err, ""); errors.As(err, new(*cdc.StopError)) {
			return err
		}
	case stateWrongObjectType:
		if table, of := d.partitionInTheWay(ctx, pg.Message); of != "" {
			return cdc.ConfigError("partition_in_the_way", "if "+of+" was renamed, rename it back with `ALTER TABLE "+of+" RENAME TO NAME`, or, if it is to stay so, give each of its partitions another name, this one with `ALTER TABLE "+table+" RENAME TO NAME`",
				"%s: %s, which would be a partition of the new table, is a partition of %s", doing, table, of)
		}
	case stateObjectInUse:
		return cdc.Stop(cdc.ClassRuntime, "slot_active", fmt.Errorf("%s: %s", doing, pg.Message), "stop the relay that reads it, then try again")
	}
	return fmt.Errorf("%s: PostgreSQL: %w", doing, pg)
}

// partitionInTheWay returns the partition that a message of PostgreSQL names, which has the name of one that is to be made, and the table
// that it belongs to; "" if it names none.
func (d *Database) partitionInTheWay(ctx context.Context, message string) (table, of string) {
	_ = d.Conn.QueryRow(ctx, `SELECT format('%I.%I', n.nspname, c.relname), format('%I.%I', pn.nspname, p.relname) FROM pg_inherits
		JOIN pg_class c ON c.oid = inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_class p ON p.oid = inhparent JOIN pg_namespace pn ON pn.oid = p.relnamespace
		WHERE n.nspname = $2 AND strpos($1, '"' || c.relname || '"') > 0`, message, outbox.PartitionSchema).Scan(&table, &of)
	return table, of
}

// ExecTimeout is how long a statement of setup may take. A slot is made only once every transaction that
// runs at that moment has ended.
const ExecTimeout = time.Minute

// Patient lets statements take [execTimeout] instead of the few seconds that questions get.
func (d *Database) Patient(ctx context.Context) error {
	return d.Exec(ctx, "set statement_timeout", fmt.Sprintf("SET statement_timeout = %d; ", ExecTimeout.Milliseconds())+writes)
}

// Open names the transactions that a new slot waits for if it is made now, the oldest first; "" if none is known.
func (d *Database) Open(ctx context.Context) (who string) {
	_ = d.Conn.QueryRow(ctx, `SELECT COALESCE(string_agg(who, ', '), '') FROM (
		SELECT 'PID ' || pid || COALESCE(to_char(xact_start, '" (open since "YYYY-MM-DD"T"HH24:MI:SS"Z)"'), '') AS who, xact_start AS since
		FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
		UNION ALL SELECT 'the prepared transaction ' || quote_literal(gid), prepared FROM pg_prepared_xacts ORDER BY since LIMIT 5) AS open`).Scan(&who)
	return who
}

// Oldest is [Database.Open] behind what took too long.
func (d *Database) Oldest(ctx context.Context) string {
	if who := d.Open(ctx); who != "" {
		return " (a new slot waits for the transactions that were open before: " + who + ")"
	}
	return ""
}

// waitsSilently is for how long a new slot may wait for other transactions before somebody is told for which.
const waitsSilently = 3 * time.Second

// CreateSlot runs the statement that makes the slot. While PostgreSQL waits for other transactions, waits is called once with their names.
// When ctx ends, so does the statement, which leaves no slot then: the server would not notice that its client is gone, and make it later.
func (d *Database) CreateSlot(ctx context.Context, slot, statement string, waits func(who string)) error {
	done := make(chan error, 1)
	go func() {
		done <- d.Exec(context.WithoutCancel(ctx), fmt.Sprintf("create slot %q", slot), statement)
	}()
	err := d.awaitSlot(ctx, done, waits)
	switch {
	case ctx.Err() != nil && err != nil:
		return fmt.Errorf("create slot %q: %w", slot, ctx.Err())
	case cdc.ReasonOf(err) == noPrivilege:
		return fmt.Errorf("create slot %q: %w", slot, mayNotReplicate(d.Server.Role, "it lacks REPLICATION"))
	}
	return err
}

func (d *Database) awaitSlot(ctx context.Context, done <-chan error, waits func(who string)) error {
	told, interrupted := time.After(waitsSilently), ctx.Done()
	var again <-chan time.Time
	for {
		select {
		case err := <-done:
			return err
		case <-told:
			if conn, err := pgx.ConnectConfig(ctx, d.Conn.Config()); err == nil {
				other := Database{Conn: conn}
				waits(other.Open(ctx))
				other.Close(ctx)
			}
			continue
		case <-interrupted:
			interrupted = nil
		case <-again:
		}
		// A request that arrives before the statement does nothing.
		cancelling, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		_ = d.Conn.PgConn().CancelRequest(cancelling)
		cancel()
		again = time.After(time.Second)
	}
}

// DropSlot drops a slot, if it is there.
func (d *Database) DropSlot(ctx context.Context, slot string) error {
	_, err := d.Conn.Exec(ctx, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1", slot)
	if err != nil {
		return d.ExecError(ctx, "drop slot "+slot, err)
	}
	return nil
}

// Publishes reports whether a publication has a table, quoted, or one of its partitions.
func (d *Database) Publishes(ctx context.Context, publication, table string) (published bool, err error) {
	err = d.Conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_publication_tables WHERE pubname = $1 AND format('%I.%I', schemaname, tablename)::regclass IN (
		SELECT relid FROM pg_partition_tree($2::text::regclass) UNION SELECT $2::text::regclass))`, publication, table).Scan(&published)
	if err != nil {
		return false, d.ExecError(ctx, "read publication "+publication, err)
	}
	return published, nil
}

// HasRows reports whether a table, quoted, has a row, and whether one was ever inserted, as far as the server's statistics know. A policy
// that would hide rows is an error.
func (d *Database) HasRows(ctx context.Context, table string) (rows, inserted bool, err error) {
	doing := "look for rows of " + table
	if err := d.Exec(ctx, doing, "SET row_security = off"); err != nil {
		return false, false, err
	}
	err = d.Conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+table+`), COALESCE(sum(pg_stat_get_tuples_inserted(relid)), 0) > 0
		FROM (SELECT relid FROM pg_partition_tree($1::text::regclass) UNION SELECT $1::text::regclass) AS parts`, table).Scan(&rows, &inserted)
	if err != nil {
		return false, false, d.ExecError(ctx, doing, err)
	}
	return rows, inserted, nil
}

// AdvanceSlot moves an inactive slot forward and returns where it stands then.
func (d *Database) AdvanceSlot(ctx context.Context, slot string, to cdc.Position) (cdc.Position, error) {
	target, err := ParseLSN(to)
	if err != nil {
		return "", err
	}
	if err := d.Exec(ctx, "set statement_timeout", "SET statement_timeout = 0"); err != nil { // it reads all WAL up to there
		return "", err
	}
	var end string
	err = d.Conn.QueryRow(ctx, `SELECT end_lsn::text FROM pg_replication_slot_advance($1, $2::text::pg_lsn)`, slot, target.String()).Scan(&end)
	if err != nil {
		return "", d.ExecError(ctx, "advance slot "+slot, err)
	}
	return ParsePosition(cdc.Position(end))
}

// minVersion is PostgreSQL 14, the first with binary mode.
const minVersion = 140000

const fixWALLevel = "run ALTER SYSTEM SET wal_level = logical, then restart PostgreSQL (managed services have a parameter for it)"

// raisesWALLevel is the first version that decodes with wal_level = replica too: effective_wal_level is logical from the primary's first
// logical slot on, until its last one is dropped. A server refuses to start replication from a slot while it is not.
const raisesWALLevel = 190000

// ServerProblem says why no relay can work on such a server.
func ServerProblem(version int, walLevel string) error {
	switch {
	case version < minVersion:
		return cdc.ConfigError("version", "upgrade it to 14 or newer", "PostgreSQL %d is too old for the relay", version/10000)
	case walLevel == "logical":
		return nil
	case version < raisesWALLevel:
		return cdc.ConfigError("wal_level", fixWALLevel, "wal_level is %s, not logical", walLevel)
	case walLevel != "replica":
		return cdc.ConfigError("wal_level", fixWALLevel, "wal_level is %s, not replica or logical", walLevel)
	}
	return nil
}

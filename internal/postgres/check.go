package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// checkTimeout bounds the whole check.
const checkTimeout = 30 * time.Second

// checker gathers findings about one database.
type checker struct {
	db     *Database
	opts   Options
	survey Survey
	unread bool // nobody has read the slot
	report cdc.Report
}

// Check verifies what a run needs from the database and changes nothing; resume is asked, on connections of the check, where a run
// would go on. It also returns the configured tables that exist, so that their columns can be checked.
func Check(ctx context.Context, o Options, resume func(context.Context, *Database, *pgconn.PgConn) (cdc.Inspection, error)) ([]cdc.Finding, map[string]*cdc.Table) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	c := &checker{opts: o}
	db, err := OpenDatabase(ctx, o)
	if err != nil {
		c.report.Fail("connection", err)
		return c.report.Findings, nil
	}
	defer db.Close(ctx)
	c.db = db
	c.connection()
	c.role()
	if !c.server() {
		return c.report.Findings, nil
	}
	if c.survey, err = db.Survey(ctx, o); err != nil {
		c.report.Fail("catalog", err)
		return c.report.Findings, nil
	}
	c.publication()
	for _, table := range c.survey.Lacking { // the publication's problem names the column
		delete(c.survey.Tables, table)
	}
	c.partitions(ctx)
	c.slot(ctx)
	c.limits(ctx)
	var now time.Time
	if asked := time.Now(); c.db.Conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now) == nil {
		c.report.Clock(asked, now)
	}
	c.replication(ctx, resume)
	return c.report.Findings, c.survey.Tables
}

func (c *checker) connection() {
	s := c.db.Server
	where := fmt.Sprintf("PostgreSQL %s at %s answers: database %q, role %q", s.Name, s.Address, s.Database, s.Role)
	c.report.Connection(where, s.TLS, s.Verified, "set source.postgres.tls, with the server's CA in ca")
}

func (c *checker) role() {
	if c.db.Server.Superuser {
		c.report.Warn("role", "make a role of its own: CREATE ROLE cdc_relay LOGIN REPLICATION PASSWORD '...'",
			"role %q is a superuser: the relay needs REPLICATION only", c.db.Server.Role)
	}
}

// server tells whether there is any use in going on.
func (c *checker) server() bool {
	if err := c.db.Server.Problem(); err != nil {
		c.report.Fail("server", err)
		return false
	}
	if level := c.db.Server.WALLevel; level == "logical" {
		c.report.OK("server", "wal_level is logical")
	} else {
		c.report.OK("server", "wal_level is %s, and the first logical slot of the primary raises it to logical", level)
	}
	if encoding := c.db.Conn.PgConn().ParameterStatus("server_encoding"); encoding != "" && !slices.Contains(strings.Fields(translatable), encoding) {
		c.report.Warn("server", "restore a dump of it into a database with ENCODING 'UTF8'",
			"database %q has the encoding %s: PostgreSQL cannot send a row whose text has no equivalent in UTF-8, nor what follows it", c.db.Server.Database, encoding)
	}
	if c.db.Server.Standby {
		c.report.Warn("server", "point source.postgres.dsn at the primary", "this server is a standby: it takes no publication, and a slot on it does not survive its promotion")
	}
	return true
}

// translatable are the encodings whose every byte has an equivalent in UTF-8, as convert() says of PostgreSQL 15.
const translatable = "UTF8 LATIN1 LATIN2 LATIN4 LATIN5 LATIN6 LATIN7 LATIN8 LATIN9 LATIN10 ISO_8859_5 KOI8R KOI8U WIN866 WIN1256"

func (c *checker) publication() {
	if c.survey.Detaching != "" {
		c.report.Warn("publication", FixDetaching(c.survey.Detaching), NotPublishedWhileDetached)
	}
	if column := c.survey.LargeObject; column != "" {
		c.report.Warn("publication", "store the value itself, in a column of type bytea or text", "column %s is of type oid: records have the number of a large object, and not what is in it", column)
	}
	if err := c.survey.Problem; err != nil {
		c.report.Fail("publication", err)
		return
	}
	if err := c.survey.Moves; err != nil {
		c.report.Fail("publication", err)
	}
	c.report.OK("publication", "publication %q holds every insert of %s", c.opts.Publication, strings.Join(c.opts.Tables, ", "))
}

// replication verifies that this role may replicate from here: rights, pg_hba.conf, poolers and free slots
// are all in it. One connection does for everything: there may be no room for two.
func (c *checker) replication(ctx context.Context, resume func(context.Context, *Database, *pgconn.PgConn) (cdc.Inspection, error)) {
	repl, err := ConnectReplication(ctx, c.opts)
	if err != nil {
		c.report.Fail("replication", err)
		return
	}
	defer CloseConn(ctx, repl)
	in, err := resume(ctx, c.db, repl)
	if err != nil {
		c.report.Fail("replication", err)
		return
	}
	works := fmt.Sprintf("a replication connection works (system %s, timeline %d)", in.Source.SystemID, in.Source.Timeline)
	if c.survey.Slot == nil {
		c.trySlot(ctx, repl, works)
		return
	}
	c.report.OK("replication", "%s", works)
	switch {
	case c.survey.Slot.Problem != nil || !in.Known(): // findings of their own
	case in.Refused != nil:
		c.report.Fail("positions", in.Refused)
	default:
		c.report.OK("positions", "a run resumes at %s", DisplayPosition(in.From))
		if c.unread && !in.Found {
			c.skipped(ctx)
		}
	}
}

// trySlot makes a slot that ends with the connection.
func (c *checker) trySlot(ctx context.Context, repl *pgconn.PgConn, works string) {
	slot := fmt.Sprintf("cdc_relay_check_%d", repl.PID())
	creating, cancel := context.WithTimeout(ctx, checkTimeout/3)
	defer cancel()
	_, err := pglogrepl.CreateReplicationSlot(creating, repl, slot, "pgoutput",
		pglogrepl.CreateReplicationSlotOptions{Temporary: true, SnapshotAction: "NOEXPORT_SNAPSHOT"})
	switch {
	case errors.Is(creating.Err(), context.DeadlineExceeded):
		c.report.Warn("replication", "end that transaction, or wait for it", "%s, but a new slot was not ready after %s%s",
			works, checkTimeout/3, c.db.Oldest(ctx))
	case err != nil:
		c.report.Fail("replication", ReplicationError(err, slot))
	default:
		c.report.OK("replication", "%s and a slot can be made", works)
	}
}

package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/admin"
	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/finding"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/relay"
	"github.com/cdc-relay/cdc-relay/internal/repair"
	"github.com/cdc-relay/cdc-relay/internal/retention"
	"github.com/cdc-relay/cdc-relay/internal/scan"
)

// database is what the commands need of a database. Each *_postgres.go has a *_mysql.go beside it.
type database interface {
	provisioner
	navigator

	// newSource makes the source that run reads.
	newSource(o sourceOptions, log *slog.Logger, reg prometheus.Registerer) (source, error)
	// newRepair takes the relay's place. verify checks each table's schema, read is the connection that reads it.
	newRepair(verify func(*cdc.Table) error, read connString, log *slog.Logger) repair.Database
	// passed reports whether a position is behind a row's place; see [cdc.Batch.Place].
	passed(p cdc.Progress, place string) bool
	// slotPosition is that of the slot where only the slot has the position, and nil elsewhere.
	slotPosition() func(ctx context.Context) (cdc.Progress, error)
	// tables are the configured tables, in their order.
	tables() []outboxTable
	// connString returns given, or the relay's own connection string if given is "".
	connString(given string) (connString, error)
	// check verifies what a run needs, and returns the tables that exist by name.
	check(ctx context.Context, load cdc.Resumer) ([]finding.Finding, map[string]*cdc.Table)
	// partitions returns the tables that have daily partitions. With owner the routine of setup is not needed. load finds the
	// position that decides what is relayed.
	partitions(dsn connString, owner bool, load cdc.Loader) (retention.Tables, error)
	// reader opens a table to read its rows by SQL. The caller closes it.
	reader(ctx context.Context, dsn connString, t *outboxTable) (tableReader, error)
	// rows returns the tables whose old rows retention.delete removes.
	rows(dsn connString, load cdc.Loader) retention.RowTables
	// letterRecords returns which relays have dead letters of the tables, and ownLetters what this relay's records are.
	letterRecords(ctx context.Context, dsn connString) ([]outbox.LetterRecord, error)
	ownLetters() []outbox.LetterRecord
	// forgetLetters is the statement that removes the records of a relay that is gone.
	forgetLetters(r outbox.LetterRecord) string
}

// tableReader reads the rows of a table and of what retention has taken out of it.
type tableReader interface {
	scan.Table
	Close(ctx context.Context)
}

// connString returns a connection string with its password. It is called at every connect.
type connString = func(context.Context) (string, error)

// sourceOptions are what a run adds to the configuration of its source.
type sourceOptions struct {
	// verify checks each table's schema.
	verify func(*cdc.Table) error
	// startFrom is where to start without a checkpoint.
	startFrom binlog.StartFrom
	// dry reads what is committed from now on and leaves nothing in the database.
	dry bool
	// problems takes those at present; nil: nobody asks for them.
	problems *cdc.Problems
}

// source is a source of the relay that also reports its state.
type source interface {
	relay.Source
	state() sourceState
}

// sourceState is the state of a source, for /status and /livez.
type sourceState struct {
	flavor    string // of the database; empty: not known yet
	connected bool
	// lastTick is when the goroutine that owns the connection last served it.
	lastTick time.Time
	// received and confirmed are positions as the database prints them.
	received, confirmed string
	// slot and lagBytes are nil where the database has none.
	slot     *admin.Slot
	lagBytes *int64
	peers    []cdc.Peer
}

// provisioner creates what the relay needs in the database, and drops it.
type provisioner interface {
	setup(ctx context.Context, s *setup, owner connString) error
	printSetup(ctx context.Context, s *setup) error
	teardown(ctx context.Context, t *teardown, owner connString) error
	printTeardown(t *teardown)
	// apply creates the tables, or their missing partitions.
	apply(ctx context.Context, a *app, flags *tableFlags, owner connString) error
}

// navigator shows and moves positions.
type navigator interface {
	showPositions(ctx context.Context, p *positions, asJSON bool) error
	setPosition(ctx context.Context, p *positions, to string, yes bool) error
	resetPosition(ctx context.Context, p *positions, yes bool) error
}

func newDatabase(c *config.Config) (database, error) {
	if c.Source.MySQL != nil {
		return newMySQL(c)
	}
	return newPostgres(c)
}

// database loads the configuration and returns its database.
func (a *app) database() (database, error) {
	c, err := a.load()
	if err != nil {
		return nil, err
	}
	return newDatabase(c)
}

// outboxTable is a configured table.
type outboxTable struct {
	name outbox.Name
	// uri is the ce_source of its records unless record.source is set.
	uri string
	// columns is the columns mapping of a table of other software, which is never created or dropped; otherwise nil.
	columns map[string]string
}

func (t *outboxTable) foreign() bool { return t.columns != nil }

// outboxTables parses the tables' names by the rules of the database.
func outboxTables(c *config.Config, parse func(string) (outbox.Name, error)) ([]outboxTable, error) {
	tables := make([]outboxTable, len(c.Tables))
	for i, name := range c.TableNames() {
		parsed, err := parse(name)
		if err != nil {
			return nil, cdc.Stop(cdc.ClassConfig, "config", fmt.Errorf("tables[%d].name: %w", i, err), "")
		}
		tables[i] = outboxTable{name: parsed, columns: c.Tables[i].Columns.Map()}
	}
	return tables, nil
}

func tableNames(tables []outboxTable) []string {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.name.String()
	}
	return names
}

// ownerFlag is --owner-dsn: creating tables and publications needs other rights than replication.
type ownerFlag struct{ value string }

const (
	envOwner  = "CDC_RELAY_OWNER_DSN"
	ownerHelp = `Creating the table and the publication needs the table's owner and CREATE on the database; the relay's own
role should have neither. Set ` + envOwner + ` to the owner's connection string. --owner-dsn takes it too, but
other users of this machine can read arguments.`
)

func (f *ownerFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.value, "owner-dsn", "", "`connection` of the table's owner, also "+envOwner+" (default the dsn of source)")
}

// dsn returns the owner's connection string: the flag's, the environment's, or the relay's own.
func (f *ownerFlag) dsn(a *app, db database) (connString, error) {
	return db.connString(f.given(a))
}

func (f *ownerFlag) given(a *app) string {
	if f.value != "" {
		return f.value
	}
	value, _ := a.env(envOwner)
	return value
}

// literalTopics returns the topics of the routes that are not templates, without repeats.
func literalTopics(c *config.Config) []string {
	var topics []string
	seen := map[string]bool{}
	for _, r := range c.Routes {
		if !templated(r.Topic) && !seen[r.Topic] {
			seen[r.Topic] = true
			topics = append(topics, r.Topic)
		}
	}
	return topics
}

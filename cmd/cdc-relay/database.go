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
)

// database is what the commands ask of the configured database, whatever its kind: each *_postgres.go has a
// *_mysql.go beside it.
type database interface {
	feeder
	maker
	navigator

	// tables are the configured ones, in their order.
	tables() []outboxTable
	// connString returns given, or the relay's own connection where given is "".
	connString(given string) (connString, error)
	// check verifies what a run needs, and returns the tables that exist by name.
	check(ctx context.Context, load cdc.Loader) ([]finding.Finding, map[string]*cdc.Table)
}

// connString returns a connection string with its password; it is called at every connect.
type connString = func() (string, error)

// feeder makes what run reads from.
type feeder interface {
	feed(o feedOptions, log *slog.Logger, reg prometheus.Registerer) (feed, error)
}

// feedOptions are a run's own.
type feedOptions struct {
	// verify is asked about each table's schema.
	verify func(*cdc.Table) error
	// startFrom is where to begin without a checkpoint.
	startFrom binlog.StartFrom
	// dry reads what is committed from now on, and leaves nothing behind.
	dry bool
}

// feed is a source of the relay, with what it says of itself.
type feed interface {
	relay.Source
	state() feedState
}

// feedState is a feed as of now, for people.
type feedState struct {
	connected bool
	// lastTick is when the owner of the connection last came round.
	lastTick time.Time
	// received and confirmed are positions as the database prints them.
	received, confirmed string
	// slot and lagBytes are nil where the database has no such thing.
	slot     *admin.Slot
	lagBytes *int64
}

// maker makes what the relay needs in the database, and takes it away.
type maker interface {
	setup(ctx context.Context, s *setup, owner connString) error
	printSetup(ctx context.Context, s *setup) error
	teardown(ctx context.Context, t *teardown, owner connString) error
	printTeardown(t *teardown)
	// apply makes the tables, or the partitions that they lack.
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

// outboxTable is a configured table.
type outboxTable struct {
	name outbox.Name
	// uri is the ce_source of its records where record.source names none.
	uri string
	// columns is the mapping of a table of other software's, which is never made or dropped; else nil.
	columns map[string]string
}

func (t *outboxTable) foreign() bool { return t.columns != nil }

// outboxTables reads the tables' names with the database's own rules.
func outboxTables(c *config.Config, parse func(string) (outbox.Name, error)) ([]outboxTable, error) {
	tables := make([]outboxTable, len(c.Tables))
	for i, name := range c.TableNames() {
		parsed, err := parse(name)
		if err != nil {
			return nil, cdc.Stop(cdc.ClassConfig, "config", fmt.Errorf("tables[%d].name: %w", i, err))
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

// ownerFlag is --owner-dsn: making tables and publications takes other rights than replicating.
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

// literalTopics are the topics that routes name outright, without repeats.
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

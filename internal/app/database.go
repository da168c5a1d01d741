// Package app makes what the configuration names. stages.go makes the stages of the relay, and what connects to Kafka and Redis;
// [NewDatabase] makes the database. [Database] is what differs between PostgreSQL on the one side and MySQL and MariaDB on the other: how
// it is read, its tables maintained, and its positions shown and moved; [Postgres] and [MySQL] keep that contract.
package app

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/backfill"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cleanup"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/relay"
	"github.com/cdc-relay/cdc-relay/internal/router"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// Database is what the relay and its commands need of a database.
type Database interface {
	// NewSource makes the source that run reads.
	NewSource(o SourceOptions, log *slog.Logger, reg prometheus.Registerer) Source
	// NewRepair takes the relay's place. verify checks each table's schema, read is the connection that reads it. A condition picks
	// rows, together with a position that is behind all of them and before all others.
	NewRepair(verify func(*cdc.Table) error, read ConnString, where string, log *slog.Logger) backfill.Database
	// Display returns a position as the database prints it; "" for none.
	Display(p cdc.Position) string
	// Passed reports whether a position is behind a row's place; see [cdc.Batch.Place].
	Passed(p cdc.Progress, place string) bool
	// SlotPosition is that of the slot where only the slot has the position, and nil elsewhere.
	SlotPosition() func(ctx context.Context) (cdc.Progress, error)
	// Tables are the configured tables, in their order, and Needed what the relay needs of them.
	Tables() []Table
	Needed() outbox.SetupOptions
	// server says where a connection leads.
	server(ctx context.Context, dsn ConnString) (server, error)
	// Check verifies what a run needs, and returns the tables that exist by name.
	Check(ctx context.Context, load cdc.Resumer) ([]cdc.Finding, map[string]*cdc.Table)
	// Partitions returns the tables that have daily partitions. With owner the routine of setup is not needed. load finds the
	// position that decides what is relayed.
	Partitions(dsn ConnString, owner bool, load cdc.Loader) cleanup.PartitionTables
	// Reader opens a table to read its rows by SQL. The caller closes it.
	Reader(ctx context.Context, dsn ConnString, t *Table) (TableReader, error)
	// Rows returns the rows of tables that are deleted or marked: those of Deletes or of Marks.
	Rows(dsn ConnString, actions []cdc.RowAction) cleanup.Tables
	// Deletes returns the tables whose old rows are deleted.
	Deletes(olderThan time.Duration) []cdc.RowAction
	// Marks returns the tables whose published rows write_back marks. Rows that meet the condition published are never pending; "": none
	// does.
	Marks(published string) []cdc.RowAction
	// positioned connects for [WithPositions].
	positioned(ctx context.Context) (positioned, error)
}

// Printf prints to a person.
type Printf = func(format string, args ...any)

// TableReader reads the rows of a table and of what retention has detached from it.
type TableReader interface {
	tableread.Table
	Unique() bool
	// CountWhere counts the rows that a condition in the database's SQL selects. A condition that the database refuses is a
	// [cdc.StopError].
	CountWhere(ctx context.Context, where string) (int64, error)
	Close(ctx context.Context)
}

// EnvOwner is the variable with the owner's connection string.
const EnvOwner = "CDC_RELAY_OWNER_DSN"

// ConnString returns a connection string with its password. It is called at every connect.
type ConnString = func(context.Context) (string, error)

// OwnerConnString returns the owner's connection string if it is given, or the relay's own if given is "".
func OwnerConnString(ctx context.Context, c *config.Config, given string) (ConnString, error) {
	if given == "" {
		return c.ConnString, nil
	}
	at, err := config.ReadConnection(given)
	dsn := func(context.Context) (string, error) { return at.DSN, nil }
	switch {
	case err != nil:
	case at.MySQL != (c.Source.MySQL != nil):
		err = cdc.Fixable("give the one for this database", "is for another kind of database")
	case !at.MySQL && at.Database != c.Database():
		err = cdc.Fixable("give the one for this database", "leads to database %q, and the configuration to %q", at.Database, c.Database())
	default:
		err = elsewhere(ctx, NewDatabase(c).server, c.ConnString, dsn)
	}
	if err != nil {
		return nil, cdc.Usage("", "the connection string of the owner (--owner-dsn or %s) %w", EnvOwner, err)
	}
	return dsn, nil
}

// elsewhere returns an error if the owner's connection leads to another server than the relay's. Production's, exported in a shell, would let
// a command for staging drop tables and days there. A connection that fails is reported by what uses it: a timer may not reach the relay's.
func elsewhere(ctx context.Context, find func(context.Context, ConnString) (server, error), relays, owners ConnString) error {
	relay, away := find(ctx, relays)
	owner, refused := find(ctx, owners)
	if away != nil || refused != nil || relay.cluster == owner.cluster && (relay.id == owner.id || relay.replica || owner.replica) {
		return nil //nolint:nilerr // see above
	}
	return cdc.Fixable("give the one for this server", "leads to another server (%s) than the configuration (%s)", owner.address, relay.address)
}

// server is where a connection leads. A primary, its replicas and its copies have the same cluster; on MySQL and MariaDB that is not known,
// and "".
type server struct {
	cluster, id, address string
	replica              bool
}

// SourceOptions are what a run adds to the configuration of its source.
type SourceOptions struct {
	// Verify checks each table's schema.
	Verify func(*cdc.Table) error
	// Dry reads what is committed from now on and leaves nothing in the database.
	Dry bool
	// PassAlteration is [wal.Options.PassAlteration].
	PassAlteration bool
	// Problems takes those at present; nil: nobody asks for them.
	Problems *cdc.Problems
}

// Source is a source of the relay that also reports its state.
type Source interface {
	relay.Source
	relay.Lagging
	Status() cdc.SourceStatus
}

// NewDatabase returns the database of a configuration.
func NewDatabase(c *config.Config) Database {
	if c.Source.MySQL != nil {
		return newMySQL(c)
	}
	return newPostgres(c)
}

// Table is a configured table.
type Table struct {
	router.Table
	// Config is what the configuration says of it.
	Config *config.Table
}

// Foreign reports whether the table belongs to other software. Such a table is never created or dropped.
func (t *Table) Foreign() bool { return t.Layout.Foreign() }

// keyAndTime returns the columns with the event's ID and with its time.
func (t *Table) keyAndTime() (key, at string) {
	return t.Layout.Column(outbox.EventID), cmp.Or(t.Layout.Column(outbox.CreatedAt), t.Layout.Column(outbox.OccurredAt))
}

// configured is what a configuration says of its tables.
type configured struct {
	Config *config.Config
	tables []Table
}

// Tables are the configured tables, in their order.
func (c *configured) Tables() []Table { return c.tables }

// Purged returns the tables whose old rows are deleted.
func (c *configured) Purged() []Table {
	return slices.DeleteFunc(slices.Clone(c.tables), func(t Table) bool { return !c.Config.Purged(t.Config) })
}

// action is what is done with the rows of the table, which the caller adds.
func (t *Table) action() cdc.RowAction {
	return cdc.RowAction{Table: t.Name.String(), SQL: t.Name.SQL(), Key: t.Layout.Column(outbox.EventID), IDPrefix: t.Layout.IDPrefix()}
}

// Deletes implements [Database].
func (c *configured) Deletes(olderThan time.Duration) (list []cdc.RowAction) {
	for _, t := range c.Purged() {
		a := t.action()
		_, a.At = t.keyAndTime()
		a.Zone, a.OlderThan = t.Layout.Zone, olderThan
		list = append(list, a)
	}
	return list
}

// Marks implements [Database].
func (c *configured) Marks(published string) (list []cdc.RowAction) {
	for _, t := range c.Marked() {
		a, w := t.action(), t.Config.WriteBack
		a.Pending, a.Set, a.OnDeadLetter = t.pending(published), assignments(w.Set), assignments(w.OnDeadLetter)
		a.Condition = cleanup.Condition(a.Table, w.Pending, c.Config.DeadLetter.Topic)
		list = append(list, a)
	}
	return list
}

// Marked returns the tables whose published rows are marked.
func (c *configured) Marked() []Table {
	return slices.DeleteFunc(slices.Clone(c.tables), func(t Table) bool { return t.Config.WriteBack == nil })
}

// Needed returns what the relay needs of the tables that are configured.
func (c *configured) Needed() (n outbox.SetupOptions) {
	for _, t := range c.tables {
		n.Read = append(n.Read, t.Name)
		if c.Config.Partitioned() && !t.Foreign() {
			n.Maintain = append(n.Maintain, t.Name)
		}
	}
	for _, t := range c.Purged() {
		n.Delete = append(n.Delete, t.Name)
	}
	marks := c.Marks("")
	for i, t := range c.Marked() {
		n.Mark = append(n.Mark, outbox.Columns{Table: t.Name, Names: marks[i].Columns()})
	}
	return n
}

// pending is the condition of the rows that are marked, but for those that meet another one.
func (t *Table) pending(published string) string {
	if published == "" {
		return t.Config.WriteBack.Pending
	}
	return "(" + t.Config.WriteBack.Pending + "\n) AND (" + published + "\n) IS NOT TRUE"
}

// assignments returns what a table's rows are set to, in the order of columns.
func assignments(set map[string]config.Assigned) []cdc.Assignment {
	var list []cdc.Assignment
	for _, column := range slices.Sorted(maps.Keys(set)) {
		list = append(list, cdc.Assignment{Column: column, Value: set[column].Value, SQL: set[column].SQL})
	}
	return list
}

// names are those of the tables.
func (c *configured) names() []string {
	names := make([]string, len(c.tables))
	for i, t := range c.tables {
		names[i] = t.Name.String()
	}
	return names
}

// configuredTables returns the tables of a configuration.
func configuredTables(c *config.Config) configured {
	tables := make([]Table, len(c.Tables))
	for i, name := range c.TableNames() {
		layout, _ := outbox.Mapped(c.Tables[i].Columns.Parts()) // valid by now
		layout.OnNull, layout.Zone = c.Tables[i].NullPayload, c.Tables[i].Zone()
		tables[i] = Table{router.Table{Name: name, Layout: layout, Shape: c.Tables[i].Shape(), Only: c.Tables[i].Only}, &c.Tables[i]}
	}
	return configured{c, tables}
}

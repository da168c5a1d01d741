package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// mysqlSetup is one run of setup on MySQL or MariaDB.
type mysqlSetup struct {
	*Setup
	*app.MySQL

	relay *mysql.Database // as the relay's user
	owner app.ConnString
}

func (s *mysqlSetup) open(ctx context.Context, owner app.ConnString) (err error) {
	s.owner = owner
	if s.relay, err = mysql.OpenDatabase(ctx, s.Binlog.Options); err != nil {
		return err
	}
	if err := s.relay.Problem(s.Binlog.Options); err != nil && len(s.relay.Settings(s.Binlog.Options)) == 0 {
		return err // another flavor or an unsupported version
	}
	return s.relay.Filtered(ctx, s.Binlog.Options)
}

func (s *mysqlSetup) close(context.Context) {
	if s.relay != nil {
		s.relay.Close()
	}
}

// script returns the SQL for an administrator and the tables' owner. maintain is whether the procedures are lacking.
func (s *mysqlSetup) script(server mysql.Server, settings []mysql.Setting, missing func(app.Table) bool, maintain bool) outbox.Steps {
	o := s.needed(missing)
	o.Flavor, o.Role = server.Flavor, server.Role
	if !maintain {
		o.Maintain = nil
	}
	for _, setting := range settings {
		o.Settings = append(o.Settings, setting.SQL(server.Flavor)...)
	}
	return outbox.MySQLSetup(o)
}

func none(app.Table) bool { return false }

func (s *mysqlSetup) printSQL(ctx context.Context) error {
	server, settings := mysql.Server{Flavor: cdc.MySQL, Role: s.config.Role()}, []mysql.Setting(nil) // if it does not answer
	asking, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	relay, away := mysql.OpenDatabase(asking, s.Binlog.Options)
	if away == nil {
		server, settings = relay.Server, relay.Settings(s.Binlog.Options)
		relay.Close()
	}
	steps := s.script(server, settings, every, true)
	if away != nil {
		s.Printf("-- The database did not answer, so its settings are not known: `cdc-relay check` reports those that must change.\n\n")
	}
	s.Printf("%s\n-- Then run `cdc-relay setup`: it stores the first position in the checkpoint.\n", steps)
	return nil
}

// makeObjects creates the tables and procedures as their owner, and gives the relay's user its rights if the owner may.
func (s *mysqlSetup) makeObjects(ctx context.Context) error {
	before, err := s.relay.Survey(ctx, s.Binlog.Options)
	if err != nil {
		return err
	}
	maintains, err := s.mayMaintain(ctx, s.relay.MayMaintain)
	if err != nil {
		return err
	}
	may := before.Problem == nil && maintains
	if may {
		if may, err = s.mayChangeRows(ctx); err != nil {
			return err
		}
	}
	var made []outbox.Name
	if !may {
		if made, err = s.asOwner(ctx, before, !maintains); err != nil {
			return err
		}
	}
	s.reportTables(func(t outbox.Name) bool { return slices.Contains(made, t) })
	return s.ready(ctx)
}

// asOwner returns the tables that it has made: the relay's user may not have seen those that were there. maintain is whether the procedures
// are lacking.
func (s *mysqlSetup) asOwner(ctx context.Context, before mysql.Survey, maintain bool) (made []outbox.Name, err error) {
	owner, err := s.Open(ctx, s.owner)
	if err != nil {
		return nil, err
	}
	defer owner.Close()
	known, err := owner.Survey(ctx, s.Binlog.Options)
	if err != nil {
		return nil, err
	}
	missing := func(t app.Table) bool {
		return before.Tables[t.Name.String()] == nil && known.Tables[t.Name.String()] == nil
	}
	for _, t := range s.Tables() {
		if !missing(t) {
			continue
		}
		if t.Foreign() {
			return nil, cdc.Stop(cdc.ClassConfig, "table_missing", fmt.Errorf(
				"table %s does not exist, or its owner may not see it, and setup creates no table that has a columns mapping", t.Name),
				"correct tables[].name, or have its software create it")
		}
		if err := mysql.RequireDatabase(ctx, owner.DB, t.Name.Schema, "grant the user its rights there"); err != nil {
			return nil, err
		}
		made = append(made, t.Name)
	}
	steps := s.script(s.relay.Server, s.relay.Settings(s.Binlog.Options), missing, maintain)
	statements := outbox.Texts(statementsFor(steps, outbox.RunnerMySQLOwner))
	if err := owner.Exec(ctx, "create the tables and the procedures that maintain their partitions", statements...); err != nil {
		return nil, err
	}
	if s.relay.Server.Role != owner.Server.Role {
		for _, grant := range steps[len(steps)-1].Statements { // the owner may lack the right to grant: ready and check report missing rights
			_ = owner.Exec(ctx, "grant rights", grant.SQL)
		}
	}
	return made, nil
}

// ready returns an error if the binlog cannot be read, because a position must not be stored then. It prints the
// statements that fix it.
func (s *mysqlSetup) ready(ctx context.Context) error {
	user, settings := s.relay.Server.Role, s.relay.Settings(s.Binlog.Options)
	after, err := s.relay.Survey(ctx, s.Binlog.Options)
	if err != nil {
		return err
	}
	var lacks []string
	for _, setting := range settings {
		lacks = append(lacks, fmt.Sprintf("%s must be %s", setting.Name, setting.Want))
	}
	if reason := cdc.ReasonOf(after.Problem); after.Problem != nil && reason != "table_missing" && reason != "database_missing" {
		return after.Problem // no grant helps
	}
	if after.Problem != nil {
		lacks = append(lacks, user+" must see the tables")
	}
	if len(settings) == 0 {
		err = binlog.TryLog(ctx, s.relay)
		if err != nil && !mysql.MayNotRead(err) {
			return err
		}
		if err != nil {
			lacks = append(lacks, user+" must be granted the right to read the binlog")
		}
	}
	may, err := s.mayMaintain(ctx, s.relay.MayMaintain)
	if err != nil {
		return err
	}
	if !may {
		lacks = append(lacks, user+" must be granted the right to maintain the partitions")
	}
	if len(lacks) == 0 {
		return nil
	}
	s.Printf("\n%s\n", s.script(s.relay.Server, settings, none, !may))
	return cdc.Stop(cdc.ClassConfig, "server_not_ready", fmt.Errorf(
		"the server is not ready (%s), so no position was stored", strings.Join(lacks, "; ")),
		"have an administrator run the statements above, then run `cdc-relay setup` again")
}

// begin stores the end of the binlog as the first position, unless one is stored.
func (s *mysqlSetup) begin(ctx context.Context) error {
	at, err := app.Places(ctx, s.config)
	if err != nil {
		return err
	}
	defer func() { _ = at.Close() }()
	in, err := binlog.Inspect(ctx, s.relay, s.Binlog, at.Resume)
	if err != nil {
		return err
	}
	if s.config.Source.MySQL.ID == "" && !in.Found && in.LoadErr == nil {
		return cdc.ConfigError("id_missing", "set it to a name that no other relay on this Kafka has, such as "+s.config.Database()+"-1, and keep it after a failover", "source.mysql.id is missing, under which the position is stored: a server's own ID changes with a failover")
	}
	if s.Backfill {
		return nil
	}
	if err := checkpoint.Settable(in.LoadErr, in.Refused, in.Found); err != nil {
		return err
	}
	if err := in.Checkpoint.Progress.Unfinished(); err != nil {
		return err
	}
	if in.Found {
		s.Printf("checkpoint in %s: exists, position %s\n", at.Location(), app.OrStart(in.Checkpoint.Progress.Position))
		if in.Refused != nil { // what to do about it is not setup's
			s.Printf("the next start is refused: %s\n", cdc.Explain(in.Refused))
		}
		return nil
	}
	// A row that is committed from here on is behind in.Executed, or is found, and refused.
	if err := s.unpublished(ctx, at); err != nil {
		return err
	}
	first := cdc.Checkpoint{Source: in.Source, Progress: cdc.Progress{Position: in.Executed}, SavedAt: time.Now()}
	if err := at.Set(ctx, first); err != nil {
		return err
	}
	s.Printf("checkpoint in %s: stored %s; events committed from now on are published\n", at.Location(), app.OrStart(in.Executed))
	return nil
}

// unpublished is [Setup.skips], which also names the checkpoint of a relay with at-least-once delivery, if there may be one that the
// configuration does not name any more.
func (s *mysqlSetup) unpublished(ctx context.Context, at *checkpoint.Places) error {
	err := s.skips(ctx, "the first position", s.owner, func(ctx context.Context, table outbox.Name) (bool, error) {
		return s.relay.HasRows(ctx, table.MySQL())
	})
	if stop, ok := errors.AsType[*cdc.StopError](err); ok && stop.Reason == rowsExist && app.PositionTopic(s.config) != "" && at.Place() == "" {
		return cdc.PositionError(rowsExist, "if a relay with at-least-once delivery has published from this database, configure its checkpoint again (checkpoint.redis or checkpoint.file) and run `cdc-relay setup`: the first start takes its position over, and the checkpoint may be left out afterwards; otherwise "+stop.Fix,
			"%w", stop.Cause)
	}
	return err
}

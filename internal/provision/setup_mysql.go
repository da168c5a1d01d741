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
	SetupOptions
	*app.MySQL
}

func (s *mysqlSetup) Apply(ctx context.Context, owner app.ConnString) error {
	db, err := s.Open(ctx, owner)
	if err != nil {
		return err
	}
	defer db.Close()
	before, err := db.Survey(ctx, s.Binlog.Options)
	if err != nil {
		return err
	}
	return s.apply(s.Tables(), func(o outbox.TableOptions) (bool, error) {
		return before.Tables[o.Name.String()] != nil, makeTable(ctx, db, o)
	})
}

func makeTable(ctx context.Context, owner *mysql.Database, o outbox.TableOptions) error {
	script, err := outbox.MySQLTable(o)
	if err != nil {
		return cdc.Usage("", "%w", err)
	}
	if err := mysql.RequireDatabase(ctx, owner.DB, o.Name.Schema, "grant the user its rights there"); err != nil {
		return err
	}
	return owner.Exec(ctx, "create table "+o.Name.String(), outbox.Texts(script.Up)...)
}

// serverState is what setup must know of the server; flavor is a guess if the server did not answer.
type serverState struct {
	flavor   cdc.Flavor
	settings []mysql.Setting
	user     string
	answered bool
}

func (s *mysqlSetup) survey(ctx context.Context) serverState {
	asking, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	db, err := mysql.OpenDatabase(asking, s.Binlog.Options)
	if err != nil {
		flavor := s.Binlog.Flavor
		if flavor == "" {
			flavor = cdc.MySQL
		}
		return serverState{flavor: flavor, user: s.Config.Role()}
	}
	defer db.Close()
	return serverState{flavor: db.Server.Flavor, settings: db.Settings(s.Binlog.Options), user: db.Server.Role, answered: true}
}

// steps returns the SQL for an administrator and the tables' owner. maintain is whether the procedures are lacking.
func (s *mysqlSetup) steps(v serverState, tables []outbox.TableOptions, maintain bool) (outbox.Steps, error) {
	o := outbox.MySQLSetupOptions{Flavor: v.flavor, User: v.user, Make: tables}
	for _, setting := range v.settings {
		o.Settings = append(o.Settings, outbox.Setting{Name: setting.Name, Value: setting.Want})
	}
	for _, t := range s.Tables() {
		o.Read = append(o.Read, t.Name)
		if _, maintained := s.Binlog.Routines[t.Name.String()]; maintain && maintained {
			o.Maintain = append(o.Maintain, t.Name)
		}
	}
	for _, t := range s.Purged() {
		o.Delete = append(o.Delete, t.Name)
	}
	for _, t := range s.Marked() {
		o.Mark = append(o.Mark, outbox.Columns{Table: t.Name, Names: t.MarkedColumns()})
	}
	steps, err := outbox.MySQLSetup(o)
	if err != nil {
		return nil, cdc.Usage("", "%w", err)
	}
	return steps, nil
}

func (s *mysqlSetup) Print(ctx context.Context) error {
	var tables []outbox.TableOptions
	for _, t := range s.Tables() {
		if !t.Foreign() {
			tables = append(tables, s.Table(t.Name))
		}
	}
	v := s.survey(ctx)
	steps, err := s.steps(v, tables, true)
	if err != nil {
		return err
	}
	if !v.answered {
		s.Printf("-- The database did not answer, so its settings are not known: `cdc-relay check` reports those that must change.\n\n")
	}
	s.Printf("%s\n-- Then run `cdc-relay setup`: it stores the first position in the checkpoint.\n", steps)
	return nil
}

// Run creates what is missing, in the order of dependencies.
func (s *mysqlSetup) Run(ctx context.Context, owner app.ConnString) error {
	db, err := mysql.OpenDatabase(ctx, s.Binlog.Options)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Problem(s.Binlog.Options); err != nil && len(db.Settings(s.Binlog.Options)) == 0 {
		return err // another flavor or an unsupported version
	}
	if err := db.Filtered(ctx, s.Binlog.Options); err != nil {
		return err
	}
	if err := s.makeTables(ctx, db, owner); err != nil {
		return err
	}
	if err := s.grantRows(ctx, db, owner); err != nil {
		return err
	}
	if err := s.ready(ctx, db); err != nil {
		return err
	}
	if err := s.storePosition(ctx, db); err != nil {
		return err
	}
	return s.finish(ctx, s.Config, s.MySQL)
}

// mayMaintain reports whether the relay's user may maintain the partitions, if it is to.
func (s *mysqlSetup) mayMaintain(ctx context.Context, db *mysql.Database) (bool, error) {
	for _, routine := range s.Binlog.Routines {
		if may, err := db.MayMaintain(ctx, routine); err != nil || !may {
			return false, err
		}
	}
	return true, nil
}

// makeTables creates the tables and procedures as their owner, and grants the relay's user its rights if the owner may.
func (s *mysqlSetup) makeTables(ctx context.Context, db *mysql.Database, owner app.ConnString) error {
	before, err := db.Survey(ctx, s.Binlog.Options)
	if err != nil {
		return err
	}
	may, err := s.mayMaintain(ctx, db)
	if err != nil {
		return err
	}
	var made []outbox.Name
	if before.Problem != nil || !may {
		if made, err = s.asOwner(ctx, db.Server.Role, owner, before); err != nil {
			return err
		}
	}
	for _, t := range s.Tables() {
		s.reportTable(&t, slices.Contains(made, t.Name))
	}
	return nil
}

// asOwner returns the tables that it has made: the relay's user may not have seen those that were there.
func (s *mysqlSetup) asOwner(ctx context.Context, user string, dsn app.ConnString, before mysql.Survey) (made []outbox.Name, err error) {
	owner, err := s.Open(ctx, dsn)
	if err != nil {
		return made, err
	}
	defer owner.Close()
	known, err := owner.Survey(ctx, s.Binlog.Options)
	if err != nil {
		return made, err
	}
	for _, t := range s.Tables() {
		name := t.Name.String()
		if before.Tables[name] == nil && known.Tables[name] == nil {
			if t.Foreign() {
				return made, cdc.Stop(cdc.ClassConfig, "table_missing", fmt.Errorf(
					"table %s does not exist, or its owner may not see it, and setup creates no table that has a columns mapping", name),
					"correct tables[].name, or have its software create it")
			}
			if err := makeTable(ctx, owner, s.Table(t.Name)); err != nil {
				return made, err
			}
			made = append(made, t.Name)
		}
		_, maintain := s.Binlog.Routines[name]
		if maintain {
			statements := outbox.MySQLMaintenance(owner.Server.Flavor, t.Name, outbox.MySQLRoutine(t.Name))
			if err := owner.Exec(ctx, "create the procedure that maintains the partitions of "+name, outbox.Texts(statements)...); err != nil {
				return made, err
			}
		}
		if user != owner.Server.Role && (maintain || before.Tables[name] == nil) {
			o := outbox.MySQLSetupOptions{User: user}
			if maintain {
				o.Maintain = []outbox.Name{t.Name}
			}
			grant(ctx, owner, t.Name, o)
		}
	}
	return made, nil
}

// grant gives the relay's user rights on a table and what belongs to it. It ignores errors: the owner may lack the right to grant, and
// ready reports missing rights.
func grant(ctx context.Context, owner *mysql.Database, table outbox.Name, o outbox.MySQLSetupOptions) {
	o.Read = []outbox.Name{table}
	steps, err := outbox.MySQLSetup(o)
	if err != nil || len(steps) == 0 {
		return
	}
	for _, statement := range steps[len(steps)-1].Statements {
		_ = owner.Exec(ctx, "grant rights on "+table.String(), statement.SQL)
	}
}

// ready returns an error if the binlog cannot be read, because a position must not be stored then. It prints the
// statements that fix it.
func (s *mysqlSetup) ready(ctx context.Context, db *mysql.Database) error {
	v := serverState{flavor: db.Server.Flavor, settings: db.Settings(s.Binlog.Options), user: db.Server.Role}
	after, err := db.Survey(ctx, s.Binlog.Options)
	if err != nil {
		return err
	}
	var lacks []string
	for _, setting := range v.settings {
		lacks = append(lacks, fmt.Sprintf("%s must be %s", setting.Name, setting.Want))
	}
	if reason := cdc.ReasonOf(after.Problem); after.Problem != nil && reason != "table_missing" && reason != "database_missing" {
		return after.Problem // no grant helps
	}
	if after.Problem != nil {
		lacks = append(lacks, v.user+" must see the tables")
	}
	if len(v.settings) == 0 {
		err = binlog.TryLog(ctx, db)
		if err != nil && !mysql.MayNotRead(err) {
			return err
		}
		if err != nil {
			lacks = append(lacks, v.user+" must be granted the right to read the binlog")
		}
	}
	may, err := s.mayMaintain(ctx, db)
	if err != nil {
		return err
	}
	if !may {
		lacks = append(lacks, v.user+" must be granted the right to maintain the partitions")
	}
	if len(lacks) == 0 {
		return nil
	}
	steps, err := s.steps(v, nil, !may)
	if err != nil {
		return err
	}
	s.Printf("\n%s\n", steps)
	return cdc.Stop(cdc.ClassConfig, "server_not_ready", fmt.Errorf(
		"the server is not ready (%s), so no position was stored", strings.Join(lacks, "; ")),
		"have an administrator run the statements above, then run `cdc-relay setup` again")
}

// storePosition stores the end of the binlog as the first position, unless one is stored.
func (s *mysqlSetup) storePosition(ctx context.Context, db *mysql.Database) error {
	if err := s.makeOwnTopics(ctx, s.Config); err != nil || s.Backfill {
		return err
	}
	at, err := app.Places(ctx, s.Config)
	if err != nil {
		return err
	}
	defer func() { _ = at.Close() }()
	in, err := binlog.Inspect(ctx, db, s.Binlog, at.Resume)
	if err != nil {
		return err
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
	if err := s.unpublished(ctx, db, at); err != nil {
		return err
	}
	first := cdc.Checkpoint{Source: in.Source, Progress: cdc.Progress{Position: in.Executed}, SavedAt: time.Now()}
	if err := at.Set(ctx, first); err != nil {
		return err
	}
	s.Printf("checkpoint in %s: stored %s; events committed from now on are published\n", at.Location(), app.OrStart(in.Executed))
	return nil
}

// unpublished is [SetupOptions.skips], which also names the checkpoint of a relay with at-least-once delivery, if there may be one that the
// configuration does not name any more.
func (s *mysqlSetup) unpublished(ctx context.Context, db *mysql.Database, at *checkpoint.Places) error {
	err := s.skips(ctx, "the first position", s.Tables(), func(ctx context.Context, table outbox.Name) (bool, error) {
		return db.HasRows(ctx, table.MySQL())
	})
	if stop, ok := errors.AsType[*cdc.StopError](err); ok && stop.Reason == rowsExist && app.PositionTopic(s.Config) != "" && at.Place() == "" {
		return cdc.PositionError(rowsExist, "if a relay with at-least-once delivery has published from this database, configure its checkpoint again (checkpoint.redis or checkpoint.file) and run `cdc-relay setup`: the first start takes its position over, and the checkpoint may be left out afterwards; otherwise "+stop.Fix,
			"%w", stop.Cause)
	}
	return err
}

// grantRows grants the relay's user rights on the rows that it deletes or marks. It ignores an error of a grant: the owner may lack the
// right, and check reports the missing one.
func (s *mysqlSetup) grantRows(ctx context.Context, db *mysql.Database, dsn app.ConnString) error {
	var lacks []outbox.Statement
	for _, t := range s.Purged() {
		may, err := db.MayDelete(ctx, t.Name.MySQL())
		if err != nil {
			return err
		}
		if !may {
			lacks = append(lacks, outbox.MySQLDeleteGrant(t.Name, db.Server.Role))
		}
	}
	for _, t := range s.Marked() {
		may, err := db.MayUpdate(ctx, t.Name.MySQL(), t.MarkedColumns())
		if err != nil {
			return err
		}
		if !may {
			lacks = append(lacks, outbox.MySQLMarkGrant(outbox.Columns{Table: t.Name, Names: t.MarkedColumns()}, db.Server.Role))
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	owner, err := s.Open(ctx, dsn)
	if err != nil {
		return err
	}
	defer owner.Close()
	for _, grant := range lacks {
		_ = owner.Exec(ctx, "grant rights on rows", grant.SQL)
	}
	return nil
}

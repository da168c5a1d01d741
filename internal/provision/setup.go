// Package provision creates what a relay needs, its configuration included, drops it, and verifies that it is there.
package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cleanup"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// Setup creates what a relay needs and does not find.
type Setup struct {
	SetupOptions

	config *config.Config
	db     app.Database
	steps  setupSteps
}

// setupSteps are those that differ between the databases.
type setupSteps interface {
	// printSQL prints the SQL that the others would execute, by the role that must.
	printSQL(ctx context.Context) error
	// open connects. owner is the connection string of the tables' owner.
	open(ctx context.Context, owner app.ConnString) error
	close(ctx context.Context)
	// makeObjects creates what is missing of tables and what belongs to them.
	makeObjects(ctx context.Context) error
	// begin makes the slot or stores the first position.
	begin(ctx context.Context) error
}

// SetupOptions are those of a [Setup].
type SetupOptions struct {
	// Table returns how a table is created.
	Table func(outbox.Name) outbox.TableOptions
	// Backfill says that every row is published afterwards, or, with Where, those that meet this condition. Then slot or position
	// are not made here, but by what publishes the rows, once it has: until then no run begins behind them.
	Backfill bool
	Where    string
	// SkipExisting says that rows that are there are not to be published.
	SkipExisting bool
	// Printf prints what is done.
	Printf app.Printf
}

// NewSetup returns the setup of a database.
func NewSetup(c *config.Config, db app.Database, o SetupOptions) *Setup {
	s := &Setup{SetupOptions: o, config: c, db: db}
	switch db := db.(type) {
	case *app.Postgres:
		s.steps = &postgresSetup{Setup: s, Postgres: db}
	case *app.MySQL:
		s.steps = &mysqlSetup{Setup: s, MySQL: db}
	default:
		panic(fmt.Sprintf("provision: no setup of a %T", db))
	}
	return s
}

// Print prints the SQL that Run would execute, by the role that must.
func (s *Setup) Print(ctx context.Context) error { return s.steps.printSQL(ctx) }

// Run creates what is missing, in the order of dependencies, and says how to continue. owner is the connection string of the tables' owner.
func (s *Setup) Run(ctx context.Context, owner app.ConnString) error {
	defer s.steps.close(ctx)
	if err := s.steps.open(ctx, owner); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		s.steps.makeObjects, s.makeOwnTopics, // before the slot: where that is refused, repair needs them
		s.steps.begin, s.makeTopics,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if s.Backfill { // which is not done yet
		return nil
	}
	if err := Settle(ctx, s.config, s.db, "", s.Printf); err != nil {
		return err
	}
	s.Printf("done: verify with `cdc-relay check`, then start `cdc-relay run`\n")
	return nil
}

// skips returns an error if a slot or a first position that is made now would leave out rows that nobody may have published. Neither tells
// whether there was another one before: one that was dropped, a checkpoint that was lost, a slot that has another name in the configuration.
// So rows decide, and not whether this is the first setup: whoever knows what they are says so. With a table without rows a setup that was
// interrupted, or whose tables or publication an administrator has made, goes on by itself. Events of rows that the application has deleted
// since a position that is lost are skipped: nothing here tells them from a first setup, which to ask for --skip-existing would hinder.
func (s *Setup) skips(ctx context.Context, begins string, owner app.ConnString, hasRows func(context.Context, outbox.Name) (bool, error)) error {
	if s.SkipExisting {
		return nil
	}
	for _, t := range s.db.Tables() {
		what := "table"
		rows, err := hasRows(ctx, t.Name)
		if err == nil && !rows && !t.Foreign() {
			what = "what is detached from table"
			rows, err = s.detached(ctx, owner, &t)
		}
		if err != nil {
			return err
		}
		if rows {
			return cdc.PositionError(rowsExist, fixRows, "%s %s has rows, and %s would begin after them", what, t.Name, begins)
		}
	}
	return nil
}

// detached reports whether retention has detached rows from a table that is empty.
func (s *Setup) detached(ctx context.Context, owner app.ConnString, t *app.Table) (bool, error) {
	r, err := s.db.Reader(ctx, owner, t)
	if err != nil {
		return false, err
	}
	defer r.Close(ctx)
	n, err := r.Count(ctx, tableread.Filter{})
	return n > 0, err
}

// rowsExist is the reason when setup would skip rows.
const rowsExist = "rows_exist"

const fixRows = "if a relay has published from this database, publish what it has not with `cdc-relay repair --since TIME`; otherwise publish every row with `cdc-relay setup --backfill`, or none, because consumers have them or need none, with `cdc-relay setup --skip-existing`"

// Settle settles what write_back needs: see [app.Positions.Settle].
func Settle(ctx context.Context, c *config.Config, db app.Database, published string, printf app.Printf) error {
	if len(db.Marks("")) == 0 {
		return nil
	}
	return app.WithPositions(ctx, c, db, printf, func(p *app.Positions) error { return p.Settle(ctx, published) })
}

// CountPending prints how many rows of each table that exists meet the condition of a backfill. Its error is that of a condition that
// the database refuses.
func CountPending(ctx context.Context, db app.Database, read app.ConnString, where string, printf app.Printf) error {
	count := func(t *app.Table) error {
		r, err := db.Reader(ctx, read, t)
		if err != nil {
			return err
		}
		defer r.Close(ctx)
		n, err := r.CountWhere(ctx, where)
		if err != nil {
			return err
		}
		printf("table %s: the backfill publishes the %s where %s\n", t.Name, display.Plural(int(n), "row"), where)
		return r.Orderly(ctx, tableread.Filter{Where: where})
	}
	for _, t := range db.Tables() {
		if err := count(&t); err != nil {
			return err
		}
	}
	return nil
}

// needed returns what the relay needs, with those of its own tables to make that are missing.
func (s *Setup) needed(missing func(app.Table) bool) outbox.SetupOptions {
	o := s.db.Needed()
	for _, t := range s.db.Tables() {
		if !t.Foreign() && missing(t) {
			o.Make = append(o.Make, s.Table(t.Name))
		}
	}
	return o
}

func every(app.Table) bool { return true }

// mayMaintain reports whether the relay's role may maintain the partitions, if it is to. may asks for one table.
func (s *Setup) mayMaintain(ctx context.Context, may func(context.Context, outbox.Name) (bool, error)) (bool, error) {
	for _, table := range s.db.Needed().Maintain {
		if ok, err := may(ctx, table); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// mayChangeRows reports whether the relay's role may delete old rows and mark published ones, if it is to. What else is in the way is check's.
func (s *Setup) mayChangeRows(ctx context.Context) (bool, error) {
	actions := slices.Concat(s.db.Deletes(0), s.db.Marks(""))
	if len(actions) == 0 {
		return true, nil
	}
	may := true
	err := s.db.Rows(s.config.ConnString, actions).Each(ctx, nil, func(t cleanup.Rows) error {
		may = may && !errors.Is(t.Verify(ctx), cdc.ErrMayNot)
		return nil
	})
	return may, err
}

// reportTables prints which tables were created.
func (s *Setup) reportTables(created func(outbox.Name) bool) {
	for _, t := range s.db.Tables() {
		said := "exists"
		if created(t.Name) {
			o := s.Table(t.Name)
			said = "created" + partitionsUntil(&o)
		}
		s.Printf("table %s: %s\n", t.Name, said)
	}
}

// partitionsUntil says until when there are daily partitions.
func partitionsUntil(o *outbox.TableOptions) string {
	if o.Partition == outbox.PartitionNone {
		return ""
	}
	return ", with daily partitions until " + o.From.UTC().AddDate(0, 0, o.Ahead).Format(time.DateOnly)
}

// makeOwnTopics makes the topics of dead letters, and that of positions for exactly-once delivery.
func (s *Setup) makeOwnTopics(ctx context.Context) error {
	like := app.TopicSpec(s.config)
	if l := &s.config.DeadLetter; l.On() {
		if err := s.makeLetterTopic(ctx, like); err != nil {
			return err
		}
		if err := s.makeTopicsAs(ctx, []string{l.Index()}, kafka.PositionTopic(like)); err != nil {
			return err
		}
	}
	if topic := app.PositionTopic(s.config); topic != "" {
		return s.makeTopicsAs(ctx, []string{topic}, kafka.PositionTopic(like))
	}
	return nil
}

// makeLetterTopic makes the topic of dead letters for letters as large as the brokers allow: those of managed services refuse more than 20 or
// 8 MiB (docs.confluent.io/cloud/current/topics/manage.html, Amazon MSK Serverless), or any setting of it.
func (s *Setup) makeLetterTopic(ctx context.Context, like *kafka.TopicSpec) error {
	l := &s.config.DeadLetter
	var refused error
	for _, limit := range []int{kafka.LargestRecord, 20 << 20, 8 << 20, 0} {
		err := s.makeTopicsAs(ctx, []string{l.Topic}, kafka.LetterTopic(l.Partitions, limit, like))
		switch {
		case kafka.SettingRefused(err):
			refused = err
			continue
		case err == nil && refused != nil && limit > 0:
			s.Printf("topic %s: max.message.bytes is %d, because the brokers refuse more: a larger event that cannot be published stops all others\n", l.Topic, limit)
		case err == nil && refused != nil:
			s.Printf("topic %s: max.message.bytes is the brokers' default, because they refuse it as a setting: a larger event that cannot be published stops all others\n", l.Topic)
		}
		return err
	}
	return refused
}

// makeTopics makes the topics that routes name, where the configuration says how.
func (s *Setup) makeTopics(ctx context.Context) error {
	topics := app.RouteTopics(s.config)
	if s.config.Topics.Create == nil || len(topics) == 0 {
		return nil
	}
	return s.makeTopicsAs(ctx, topics, app.TopicSpec(s.config))
}

func (s *Setup) makeTopicsAs(ctx context.Context, topics []string, spec *kafka.TopicSpec) error {
	client := app.KafkaClient(s.config)
	created, err := client.EnsureTopics(ctx, topics, spec)
	for _, name := range topics {
		if made := slices.Contains(created, name); made || err == nil {
			s.Printf("topic %s: %s\n", name, createdOr(!made))
		}
	}
	return err
}

func createdOr(existed bool) string {
	if existed {
		return "exists"
	}
	return "created"
}

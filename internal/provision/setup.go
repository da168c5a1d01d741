// Package provision creates what a relay needs, its configuration included, drops it, and verifies that it is there.
package provision

import (
	"context"
	"slices"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// Setup creates what a relay needs and does not find.
type Setup interface {
	// Run creates what is missing. owner is the connection string of the tables' owner.
	Run(ctx context.Context, owner app.ConnString) error
	// Print prints the SQL that Run would execute, by the role that must.
	Print(ctx context.Context) error
	// Apply creates the tables, or their missing partitions.
	Apply(ctx context.Context, owner app.ConnString) error
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
func NewSetup(db app.Database, o SetupOptions) (s Setup) {
	db.Visit(func(p *app.Postgres) { s = &postgresSetup{o, p} }, func(m *app.MySQL) { s = &mysqlSetup{o, m} })
	return s
}

// skips returns an error if a slot or a first position that is made now would leave out rows that nobody may have published. Neither tells
// whether there was another one before: one that was dropped, a checkpoint that was lost, a slot that has another name in the configuration.
// So rows decide, and not whether this is the first setup: whoever knows what they are says so. A table without rows has nothing that
// could be published, so a setup that was interrupted, or whose publication an administrator has made, goes on by itself.
func (s *SetupOptions) skips(ctx context.Context, begins string, tables []app.Table, hasRows func(context.Context, outbox.Name) (bool, error)) error {
	if s.SkipExisting {
		return nil
	}
	for _, t := range tables {
		rows, err := hasRows(ctx, t.Name)
		if err != nil {
			return err
		}
		if rows {
			return cdc.PositionError(rowsExist, fixRows, "table %s has rows, and %s would begin behind them", t.Name, begins)
		}
	}
	return nil
}

// rowsExist is the reason when setup would skip rows.
const rowsExist = "rows_exist"

const fixRows = "if a relay has published from this database, publish what it has not with `cdc-relay repair --since TIME`; otherwise publish every row with `cdc-relay setup --backfill`, or none, because consumers have them or need none, with `cdc-relay setup --skip-existing`"

// finish makes the topics, settles write_back and says how to continue.
func (s *SetupOptions) finish(ctx context.Context, c *config.Config, db app.Database) error {
	if err := s.makeTopics(ctx, c); err != nil {
		return err
	}
	if s.Backfill { // which is not done yet
		return nil
	}
	if err := Settle(ctx, c, db, "", s.Printf); err != nil {
		return err
	}
	s.Printf("done: verify with `cdc-relay check`, then start `cdc-relay run`\n")
	return nil
}

// Settle settles what write_back needs: see [app.Database.Settle].
func Settle(ctx context.Context, c *config.Config, db app.Database, published string, printf app.Printf) error {
	at, err := app.Places(ctx, c)
	if err != nil {
		return err
	}
	defer func() { _ = at.Close() }()
	return db.Settle(ctx, at, published, printf)
}

// CountPending prints how many rows of each table that exists meet the condition of a backfill. Its error is that of a condition that
// the database refuses.
func CountPending(ctx context.Context, db app.Database, read app.ConnString, where string, printf app.Printf) error {
	tables := db.Tables()
	for i := range tables {
		if err := countPending(ctx, db, read, &tables[i], where, printf); err != nil {
			return err
		}
	}
	return nil
}

func countPending(ctx context.Context, db app.Database, read app.ConnString, t *app.Table, where string, printf app.Printf) error {
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

// apply calls create with each table that is ours; it reports whether the table existed.
func (s *SetupOptions) apply(tables []app.Table, create func(outbox.TableOptions) (existed bool, err error)) error {
	for _, t := range tables {
		if t.Foreign() {
			s.Printf("table %s: unchanged, it has a columns mapping\n", t.Name)
			continue
		}
		o := s.Table(t.Name)
		existed, err := create(o)
		if err != nil {
			return err
		}
		s.Printf("table %s: %s%s\n", o.Name, createdOr(existed), partitionsUntil(&o))
	}
	return nil
}

// reportTable prints whether a table was created.
func (s *SetupOptions) reportTable(t *app.Table, created bool) {
	said := "exists"
	if created {
		o := s.Table(t.Name)
		said = "created" + partitionsUntil(&o)
	}
	s.Printf("table %s: %s\n", t.Name, said)
}

// partitionsUntil says until when there are daily partitions.
func partitionsUntil(o *outbox.TableOptions) string {
	if o.Partition == outbox.PartitionNone {
		return ""
	}
	return ", with daily partitions until " + o.From.UTC().AddDate(0, 0, o.Ahead).Format(time.DateOnly)
}

// makeOwnTopics makes the topics of dead letters, and that of positions for exactly-once delivery.
func (s *SetupOptions) makeOwnTopics(ctx context.Context, c *config.Config) error {
	like := app.TopicSpec(c)
	if l := &c.DeadLetter; l.On() {
		if err := s.makeLetterTopic(ctx, c, like); err != nil {
			return err
		}
		if err := s.makeTopicsAs(ctx, c, []string{l.Index()}, kafka.PositionTopic(like)); err != nil {
			return err
		}
	}
	if topic := app.PositionTopic(c); topic != "" {
		return s.makeTopicsAs(ctx, c, []string{topic}, kafka.PositionTopic(like))
	}
	return nil
}

// makeLetterTopic makes the topic of dead letters for letters as large as the brokers allow: those of managed services refuse more than 20 or
// 8 MiB (docs.confluent.io/cloud/current/topics/manage.html, Amazon MSK Serverless), or any setting of it.
func (s *SetupOptions) makeLetterTopic(ctx context.Context, c *config.Config, like *kafka.TopicSpec) error {
	l := &c.DeadLetter
	var refused error
	for _, limit := range []int{kafka.LargestRecord, 20 << 20, 8 << 20, 0} {
		err := s.makeTopicsAs(ctx, c, []string{l.Topic}, kafka.LetterTopic(l.Partitions, limit, like))
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
func (s *SetupOptions) makeTopics(ctx context.Context, c *config.Config) error {
	topics := app.RouteTopics(c)
	if c.Topics.Create == nil || len(topics) == 0 {
		return nil
	}
	return s.makeTopicsAs(ctx, c, topics, app.TopicSpec(c))
}

func (s *SetupOptions) makeTopicsAs(ctx context.Context, c *config.Config, topics []string, spec *kafka.TopicSpec) error {
	client, err := app.KafkaClient(c)
	if err != nil {
		return err
	}
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

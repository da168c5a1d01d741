package inspect

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/backfill"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/relay"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// HeaderReplayed marks a record that replay has published. Its value is when the replay began.
const HeaderReplayed = "replayed_at"

// Replay publishes events of the tables once more.
type Replay struct {
	// State is what is to be replayed; a replay that is resumed reads it from File.
	State State
	File  string
	// Resume goes on with the state in the file. Given is a flag that was given and that such a replay cannot take; "" if there is none.
	Resume bool
	Given  string
	// Owner is the connection string of the tables' owner; "": the relay's own is used.
	Owner string
	// Confirm is asked before total events are published.
	Confirm func(total int64) error
	// Printf prints what is done, and to Progress goes how far it is.
	Printf   app.Printf
	Progress io.Writer

	config     *config.Config
	db         app.Database
	selections []backfill.Selection
	dropped    atomic.Int64 // by errors.*
}

// Run replays the events.
func (r *Replay) Run(ctx context.Context, c *config.Config) error {
	r.configure(c)
	unlock, err := r.lock()
	if err != nil {
		return err
	}
	defer func() { _ = unlock() }() // the end of the process does it too
	if r.Resume {
		err = r.continueFrom()
	} else {
		err = r.refuseOther()
	}
	if err != nil {
		return err
	}
	readers, err := r.open(ctx)
	defer closeAll(ctx, readers)
	if err != nil {
		return err
	}
	if err := r.keepTables(); err != nil {
		return err
	}
	if err := r.count(ctx); err != nil {
		return err
	}
	if err := r.requireTopic(ctx); err != nil {
		return err
	}
	if !r.Resume {
		if err := r.Confirm(r.State.Total); err != nil {
			return err
		}
	}
	return r.publish(ctx)
}

// DryReplay is what a replay would publish: how many events, and how many it would drop; the records by topic, and the first ten.
type DryReplay struct {
	Published, Dropped int64
	Topics             map[string]int
	First              []Record
}

// shownFirst is how many events a dry run shows.
const shownFirst = 10

// Dry routes the events and counts them.
func (r *Replay) Dry(ctx context.Context, c *config.Config) (*DryReplay, error) {
	r.configure(c)
	readers, err := r.open(ctx)
	defer closeAll(ctx, readers)
	if err != nil {
		return nil, err
	}
	if err := r.requireTopic(ctx); err != nil {
		return nil, err
	}
	dry := &DryReplay{Topics: map[string]int{}}
	shown := newSink(newPrinter(r.config), func(rec *Record) error {
		dry.Published++
		dry.Topics[rec.Topic]++
		if len(dry.First) < shownFirst {
			dry.First = append(dry.First, *rec)
		}
		return nil
	})
	r.State.Rate = 0
	if _, err := r.run(ctx, shown, checkpoint.None{}, nil); err != nil {
		return nil, err
	}
	dry.Dropped = r.dropped.Load()
	if dry.Published+dry.Dropped == 0 {
		return nil, r.nothing()
	}
	return dry, nil
}

func (r *Replay) configure(c *config.Config) {
	r.config, r.State.Source, r.db = c, c.Database(), app.NewDatabase(c)
}

func closeAll(ctx context.Context, readers []app.TableReader) {
	for _, reader := range readers {
		reader.Close(context.WithoutCancel(ctx))
	}
}

// open opens the tables that the filter selects from. It returns them also with an error.
func (r *Replay) open(ctx context.Context) (readers []app.TableReader, err error) {
	dsn, err := app.OwnerConnString(ctx, r.config, r.Owner)
	if err != nil {
		return nil, err
	}
	keyed := slices.IndexFunc(r.config.Routes, func(c config.Route) bool { return c.Key != nil })
	if keyed >= 0 && len(r.State.Filter.Keys) > 0 {
		return nil, cdc.Usage("leave it out, and select by --id, --type, --aggregate-type, or by --since and --until",
			"--key looks for partition_key or aggregate_id, and routes[%d] has a key of its own", keyed)
	}
	named := false
	tables := r.db.Tables()
	asked := askedIDs{}
	for i := range tables {
		t := &tables[i]
		if r.State.Table != "" && r.State.Table != t.Name.String() && r.State.Table != t.Name.Table {
			continue
		}
		named = true
		reader, err := r.db.Reader(ctx, dsn, t)
		if err != nil {
			return readers, err
		}
		readers = append(readers, reader)
		f, selects, err := r.State.Filter.forTable(t, reader)
		if err == nil && selects && len(f.IDs) > 0 {
			f.IDs, err = asked.of(ctx, reader, f.IDs)
			selects = len(f.IDs) > 0
		}
		if err != nil {
			return readers, err
		}
		if selects {
			r.selections = append(r.selections, backfill.Selection{Table: reader, Filter: f})
		}
	}
	if !named {
		return readers, cdc.Usage("name a table of the configuration", "--table: %s is not configured", r.State.Table)
	}
	for _, id := range r.State.Filter.IDs {
		if err := asked[id]; err != nil {
			return readers, err
		}
	}
	if len(r.selections) == 0 {
		return readers, cdc.Usage("use another filter, or map the column in tables[].columns", "no table has the column that %s needs", r.State.Filter.flags())
	}
	return readers, nil
}

// count finds where the tables end, counts the events, and returns an error if there are none. What is written meanwhile, the relay publishes.
func (r *Replay) count(ctx context.Context) error {
	for i := range r.selections {
		s := &r.selections[i]
		if r.Resume {
			s.Filter.Last = r.State.Ends[i]
			continue
		}
		err := s.Table.Orderly(ctx, s.Filter)
		if err == nil {
			s.Filter.Last, err = tableread.Last(ctx, s.Table, s.Filter)
		}
		if err != nil {
			return err
		}
		n, err := s.Table.Count(ctx, s.Filter)
		if err != nil {
			return err
		}
		r.State.Total += n
		r.State.Ends = append(r.State.Ends, s.Filter.Last)
	}
	if r.State.Total == 0 {
		return r.nothing()
	}
	return nil
}

func (r *Replay) nothing() error {
	if r.State.Filter.Empty() {
		return cdc.Fixable("check tables[].name, and for how long events are kept (retention.keep)", "the outbox is empty: there is nothing to replay")
	}
	return cdc.Fixable("widen the filter, or check for how long events are kept (retention.keep)", "no event in the outbox matches %s, and nothing was published", r.State.Filter.flags())
}

// requireTopic returns an error if --topic does not exist: a misspelled one is not to be created.
func (r *Replay) requireTopic(ctx context.Context) error {
	name := r.State.Topic
	if name == "" {
		return nil
	}
	if slices.Contains(r.config.OwnTopics(), name) {
		return cdc.Usage("name another topic", "--topic: %s is a topic of the relay's own", name)
	}
	client := app.KafkaClient(r.config)
	defer client.Close()
	md, err := client.Metadata(ctx, []string{name})
	missing := func(t *sarama.TopicMetadata) bool {
		return t.Err == sarama.ErrUnknownTopicOrPartition || t.Err == sarama.ErrInvalidTopic
	}
	if err == nil && slices.ContainsFunc(md.Topics, missing) {
		err = cdc.Usage("create it, or correct --topic", "--topic: topic %q does not exist", name)
	}
	return err
}

// publish replays with a producer of its own, which fences nobody.
func (r *Replay) publish(ctx context.Context) error {
	problems := new(cdc.Problems)
	sink := app.Unfenced(r.config, r.drop, problems)
	r.Printf("publishing %s of %s, which is not the order of commits where transactions overlapped\n",
		display.Plural(int(max(0, r.State.Total-r.State.Place.Rows)), "event"), strings.Join(r.State.Tables, ", "))
	rows, err := r.run(ctx, sink, &stateStore{Replay: r, problems: problems, pace: display.NewPace(r.State.Total, r.State.Place.Done)}, problems)
	if r.Resume && cdc.ReasonOf(err) == tableread.ReasonNotAnID {
		return r.unreadable(err)
	}
	if err != nil {
		r.Printf("%s done; continue with `cdc-relay replay --resume%s`\n", display.Plural(int(rows), "event"), r.namedState())
		return err
	}
	dropped := r.dropped.Load()
	r.Printf("%s published%s\n", display.Plural(int(rows-dropped), "event"), DroppedToo(dropped))
	if err := r.State.remove(r.File); err != nil {
		return err
	}
	return r.missing()
}

// drainTimeout is how long a replay that is stopped waits for what it has sent: it would be repeated.
const drainTimeout = 2 * time.Second

// run runs a relay whose source is the selected rows, and returns how many are published. Its position is a place in the tables, which
// store keeps, and not that of the relay that tails them.
func (r *Replay) run(ctx context.Context, sink relay.Sink, store relay.Checkpointer, problems *cdc.Problems) (rows int64, err error) {
	source := backfill.NewReplay(r.selections, r.State.Rate)
	o := app.RelayOptions(r.config, r.db, r.drop)
	o.Park, o.Problems, o.ShutdownTimeout = false, problems, min(o.ShutdownTimeout, drainTimeout)
	o.Display = func(p cdc.Position) string { return string(p) }
	stages := relay.Stages{Source: source, Router: r.router(), Sink: sink, Checkpointer: store}
	err = relay.New(o, stages, slog.New(slog.DiscardHandler), prometheus.NewRegistry()).RunUntil(ctx, source.Done())
	select {
	case <-source.Done():
	default:
		err = cmp.Or(err, ctx.Err()) // it was stopped
	}
	return source.Rows(), err
}

// drop counts an event that is not published.
func (r *Replay) drop(string) { r.dropped.Add(1) }

// missing returns an error if rows were removed after they were counted.
func (r *Replay) missing() error {
	if r.State.Place.Rows >= r.State.Total {
		return nil
	}
	return cdc.Fixable("check for how long events are kept: removed events cannot be replayed",
		"of %s that were counted only %d were in the outbox when they were read: the others were removed and are not published",
		display.Plural(int(r.State.Total), "event"), r.State.Place.Rows)
}

// DroppedToo says how many events were dropped, "" if none were.
func DroppedToo(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %s not, because of errors.* in the configuration", display.Plural(int(n), "event"))
}

// router returns the router of the present configuration. With --topic a row needs no route, the topic is the one that was given, and the
// partition the key's.
func (r *Replay) router() relay.Router {
	c := *r.config
	if r.State.Topic != "" {
		c.Routes, c.TopicPrefix = append(slices.Clone(c.Routes), config.Route{}), ""
		for i := range c.Routes { // their keys stay; the partitions are those of other topics
			c.Routes[i].Topic, c.Routes[i].Partition = r.State.Topic, nil
		}
	}
	router := app.ReplayRouter(&c, r.db.Tables(), cdc.Header{Key: []byte(HeaderReplayed), Value: []byte(RFC3339(r.State.Began))})
	if r.State.Topic == "" {
		return router
	}
	return oneTopic{router, r.State.Topic}
}

// oneTopic gives all records the same topic, also where a column has one.
type oneTopic struct {
	relay.Router

	topic string
}

// Route implements [relay.Router].
func (o oneTopic) Route(b *cdc.Batch, dst *cdc.Routed) error {
	err := o.Router.Route(b, dst)
	for i := range dst.Messages {
		dst.Messages[i].Topic = o.topic
	}
	return err
}

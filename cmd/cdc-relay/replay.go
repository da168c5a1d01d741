package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/IBM/sarama"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/replay"
	"github.com/cdc-relay/cdc-relay/internal/scan"
	"github.com/cdc-relay/cdc-relay/internal/source"
	"github.com/cdc-relay/cdc-relay/internal/stages"
)

// headerReplayed marks a record that replay has published. Its value is when the replay began.
const headerReplayed = "replayed_at"

// handful is how many events are replayed unasked although nothing narrows them down.
const handful = 10

// replayRun is one run of the command replay.
type replayRun struct {
	app   *app
	owner ownerFlag
	state replayState
	file  string
	// resume goes on with the state in the file.
	resume, dryRun, withHeaders, yes bool

	config     *config.Config
	db         source.Database
	selections []replay.Selection
	total      int64
	unlock     func() error
}

func newReplayCommand(a *app) *cobra.Command {
	r := replayRun{app: a}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Publish events from the outbox table once more",
		Long: `Publish events that are still in the outbox table once more, also those in partitions that retention has taken out.

Filters are combined; a filter that is repeated selects any of its values. Events are published in order of creation
(created_at, then event ID), one table after the other. The order of commits is not in the table: where transactions
overlapped, the two differ. Records are routed by the present configuration and are like those of the relay, but for
the header ` + headerReplayed + ` with the time of the replay, ce_committime, which is created_at, and ce_sequence, which is
absent. The relay may run meanwhile: its position and its fence are not touched.

It takes SELECT on the table, which the relay's role may lack: set ` + source.EnvOwner + ` to the connection string of the
table's owner. Rows are looked up by event ID and created_at; without an index on created_at each 100,000 events
read the index of a partition once.

An interrupted replay leaves its state in a file; --resume goes on from there and repeats at most the events that were
not acknowledged and the rest of a page of 1,000.`,
		Example: `  cdc-relay replay --id 0198c0de-0000-7000-8000-000000000001
  cdc-relay replay --key order-42 --topic orders.repair
  cdc-relay replay --type OrderPlaced --from 2026-01-02T00:00:00Z --to 2026-01-03T00:00:00Z --dry-run
  cdc-relay replay --from 2026-01-02T00:00:00+01:00 --rate 1000
  cdc-relay replay --resume`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd) },
	}
	r.state.Filter.add(cmd)
	r.state.Filter.addTimes(cmd)
	r.owner.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&r.state.Table, "table", "", "events of this `table` only")
	flags.StringVar(&r.state.Topic, "topic", "", "publish to this `topic`, which must exist, and not where routes say")
	flags.IntVar(&r.state.Rate, "rate", 0, "`events` per second (default no limit)")
	flags.BoolVar(&r.dryRun, "dry-run", false, "route the events, count them and show the first ten; publish nothing")
	flags.BoolVar(&r.withHeaders, "with-headers", false, "with --dry-run, also show the headers of the first ten")
	flags.BoolVar(&r.resume, "resume", false, "go on with an interrupted replay")
	flags.StringVar(&r.file, "state", defaultState, "`file` with the state of a replay that runs or was interrupted")
	flags.BoolVar(&r.yes, "yes", false, "replay all events without asking")
	return cmd
}

func (r *replayRun) run(cmd *cobra.Command) (err error) {
	ctx := cmd.Context()
	defer func() {
		if r.unlock != nil {
			_ = r.unlock() // the end of the process does it too
		}
	}()
	if err := r.prepare(cmd); err != nil {
		return err
	}
	readers, err := r.open(ctx)
	defer func() {
		for _, reader := range readers {
			reader.Close(context.WithoutCancel(ctx))
		}
	}()
	if err != nil {
		return err
	}
	if r.dryRun {
		return r.show(ctx)
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
	if err := r.confirm(); err != nil {
		return err
	}
	return r.publish(ctx)
}

// prepare checks the command line, and reads the state to go on with.
func (r *replayRun) prepare(cmd *cobra.Command) (err error) {
	if err := r.state.Filter.check(); err != nil {
		return err
	}
	switch {
	case r.state.Rate < 0 || cmd.Flags().Changed("rate") && r.state.Rate == 0:
		return cdc.Usage("give the events per second, or leave it out", "--rate %d is not more than 0", r.state.Rate)
	case r.withHeaders && !r.dryRun:
		return cdc.Usage("add --dry-run", "--with-headers shows the headers of a dry run")
	case r.resume && r.dryRun:
		return cdc.Usage("leave one out", "--resume publishes, --dry-run does not")
	}
	if r.config, err = r.app.load(); err != nil {
		return err
	}
	tuneGC(r.app.env, int64(r.config.Window.Bytes))
	if r.db, err = source.New(r.config); err != nil {
		return err
	}
	r.state.Source = r.config.Database()
	if r.dryRun {
		return nil
	}
	if err := r.lock(); err != nil {
		return err
	}
	if r.resume {
		return r.continueFrom(cmd)
	}
	return r.refuseOther()
}

// open opens the tables that the filter selects from. It returns them also with an error.
func (r *replayRun) open(ctx context.Context) (readers []source.TableReader, err error) {
	dsn, err := r.owner.dsn(r.app, r.db)
	if err != nil {
		return nil, err
	}
	named := false
	tables := r.db.Tables()
	for i := range tables {
		t := &tables[i]
		if r.state.Table != "" && r.state.Table != t.Name.String() && r.state.Table != t.Name.Table {
			continue
		}
		named = true
		reader, err := r.db.Reader(ctx, dsn, t)
		if err != nil {
			return readers, err
		}
		readers = append(readers, reader)
		f, selects, err := r.state.Filter.forTable(t, reader)
		if err != nil {
			return readers, err
		}
		if selects {
			r.selections = append(r.selections, replay.Selection{Table: reader, Filter: f})
		}
	}
	if !named {
		return readers, cdc.Usage("name a table of the configuration", "--table: %s is not configured", r.state.Table)
	}
	if len(r.selections) == 0 {
		return readers, cdc.Usage("use another filter, or map the column in tables[].columns", "no table has the column that %s needs", r.state.Filter.flags())
	}
	return readers, nil
}

// count counts the events, and returns an error if there are none.
func (r *replayRun) count(ctx context.Context) error {
	if r.resume {
		r.total = r.state.Total
		return nil
	}
	for i := range r.selections {
		old, young, err := r.countOf(ctx, &r.selections[i])
		if err != nil {
			return err
		}
		r.total += old + young
		r.state.Old += old
	}
	r.state.Total = r.total
	if r.total == 0 {
		return r.nothing()
	}
	return nil
}

// countOf counts the events of a table: those that are old, to which later transactions add none, and the others.
func (r *replayRun) countOf(ctx context.Context, s *replay.Selection) (old, young int64, err error) {
	f, since := s.Filter, s.Filter
	if since.From.Before(r.state.old()) {
		since.From = r.state.old()
		if f.To.IsZero() || f.To.After(since.From) {
			f.To = since.From
		}
		if old, err = s.Table.Count(ctx, f); err != nil {
			return 0, 0, err
		}
	}
	if since.To.IsZero() || since.To.After(since.From) {
		young, err = s.Table.Count(ctx, since)
	}
	return old, young, err
}

func (r *replayRun) nothing() error {
	if r.state.Filter.empty() {
		return cdc.Fixable("check tables[].name, and for how long events are kept (partitions.ttl)", "the outbox is empty: there is nothing to replay")
	}
	return cdc.Fixable("widen the filter, or check for how long events are kept (partitions.ttl)", "no event in the outbox matches %s, and nothing was published", r.state.Filter.flags())
}

// requireTopic returns an error if --topic does not exist: a misspelled one is not to be created.
func (r *replayRun) requireTopic(ctx context.Context) error {
	name := r.state.Topic
	if name == "" {
		return nil
	}
	if slices.Contains(stages.Reserved(r.config), name) {
		return cdc.Usage("name another topic", "--topic: %s is a topic of the relay's own", name)
	}
	client, err := stages.KafkaClient(r.config)
	if err != nil {
		return err
	}
	defer client.Close()
	md, err := client.Metadata(ctx, []string{name})
	if err != nil {
		return err
	}
	for _, topic := range md.Topics {
		switch topic.Err { //nolint:exhaustive // the publisher knows the others
		case sarama.ErrUnknownTopicOrPartition:
			return cdc.Usage("create it, or correct --topic", "--topic: topic %q does not exist", name)
		case sarama.ErrInvalidTopic:
			return cdc.Usage("correct --topic", "--topic: Kafka refuses the name %q", name)
		}
	}
	return nil
}

// confirm asks before everything is replayed.
func (r *replayRun) confirm() error {
	if r.resume || r.yes || !r.state.Filter.empty() || r.total <= handful {
		return nil
	}
	question := fmt.Sprintf("No filter is given: all %s of the outbox would be published once more", display.Plural(int(r.total), "event"))
	if !isTerminal(r.app.stdin) {
		return cdc.Usage("narrow them down, for example with --from and --to, or add --yes", "no filter is given, and all %s of the outbox would be published once more", display.Plural(int(r.total), "event"))
	}
	r.app.printf("%s. Go on? [y/N] ", question)
	var answer string
	if _, err := fmt.Fscanln(r.app.stdin, &answer); err != nil || answer != "y" && answer != "yes" {
		return errors.New("nothing was published")
	}
	return nil
}

// publish replays with a producer of its own, which fences nobody.
func (r *replayRun) publish(ctx context.Context) error {
	router, err := r.router()
	if err != nil {
		return err
	}
	problems := new(cdc.Problems)
	sink, err := newReplaySink(r.config, problems)
	if err != nil {
		return err
	}
	defer sink.Kill()
	if err := r.connect(ctx, sink); err != nil {
		return err
	}
	if err := r.state.save(r.file); err != nil {
		return err
	}
	r.app.printf("publishing %s in order of creation, which is not that of commits where transactions overlapped\n", display.Plural(int(r.total-r.state.Published), "event"))
	show := newProgress(r.app.stderr, r.state.Published, r.total)
	err = replay.Run(ctx, replay.Options{
		Selections: r.selections, Router: router, Sink: sink, From: r.state.Place, Old: r.state.old(), Topic: r.state.Topic, Rate: r.state.Rate,
		Every: time.Second, Report: r.reporter(show, problems),
	})
	show.end()
	if stop, ok := errors.AsType[*cdc.StopError](err); ok && r.resume && stop.Reason == scan.ReasonNotAnID {
		return r.unreadable(err)
	}
	if err != nil {
		r.app.printf("%s published; go on with `cdc-relay replay --resume%s`\n", display.Plural(int(r.state.Published), "event"), r.namedState())
		return err
	}
	r.app.printf("%s published%s\n", display.Plural(int(r.state.Published), "event"), droppedToo(r.state.Dropped))
	if err := r.state.remove(r.file); err != nil {
		return err
	}
	return r.missing()
}

// missing returns an error if rows were removed after they were counted. Events that came meanwhile make up for them, but old ones hardly
// ever come.
func (r *replayRun) missing() error {
	counted, read, which := r.total, r.state.Place.Rows, ""
	if read >= counted {
		counted, read, which = r.state.Old, r.state.Place.Old, "created before "+rfc3339(r.state.old())+" and "
	}
	if r.state.Uncounted || read >= counted {
		return nil
	}
	return cdc.Fixable("check for how long events are kept: removed events cannot be replayed",
		"of %s that were %scounted only %d were in the outbox when they were read: the others were removed meanwhile and are not published",
		display.Plural(int(counted), "event"), which, read)
}

// connect waits for Kafka as a relay does at its start: a cluster that has just started has no producer IDs yet.
func (r *replayRun) connect(ctx context.Context, sink *publisher.Publisher) error {
	deadline := time.Now().Add(r.config.StartupTimeout)
	for {
		err := sink.Open(ctx, "")
		var stop *cdc.StopError
		if err == nil || errors.As(err, &stop) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(r.config.Retry.Initial):
		}
	}
}

func droppedToo(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %s not, because of errors.* in the configuration", display.Plural(int(n), "event"))
}

// reporter returns what saves and shows the progress.
func (r *replayRun) reporter(show *progress, problems *cdc.Problems) func(replay.Progress) error {
	published, dropped := r.state.Published, r.state.Dropped
	return func(p replay.Progress) error {
		r.state.Place, r.state.Published, r.state.Dropped = p.Place, published+p.Published, dropped+p.Dropped
		show.update(r.state.Published + r.state.Dropped)
		why := ""
		if list := problems.List(); len(list) > 0 {
			why = cdc.Explain(&list[0])
		}
		show.waits(why)
		return r.state.save(r.file)
	}
}

// router returns the router of the present configuration. With --topic a row needs no route.
func (r *replayRun) router() (replay.Router, error) {
	c := *r.config
	if r.state.Topic != "" {
		c.Routes = []config.Route{{Topic: r.state.Topic}}
	}
	return stages.Router(&c, r.db.Tables(), cdc.Header{Key: []byte(headerReplayed), Value: []byte(rfc3339(r.state.Began))})
}

func newReplaySink(c *config.Config, problems *cdc.Problems) (*publisher.Publisher, error) {
	o := stages.Unfenced(c)
	o.Problems = problems
	p, err := publisher.New(o, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		return nil, cdc.Stop(cdc.ClassConfig, "config", err, "")
	}
	return p, nil
}

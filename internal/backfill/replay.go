package backfill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// Router turns rows into messages.
type Router interface {
	Route(b *cdc.Batch, dst *cdc.Routed) error
}

// Sink publishes messages in order, and answers on Durable.
type Sink interface {
	Send(ctx context.Context, r *cdc.Routed) error
	Durable() <-chan cdc.Durable
}

// Selection is a table with the rows to publish.
type Selection struct {
	Table  tableread.Table
	Filter tableread.Filter
}

// Place is how far a replay has come: every selected row up to Key of the table is published, and all of the tables before it. These
// are Rows rows.
type Place struct {
	Table int           `json:"table"`
	Key   tableread.Key `json:"after"`
	Rows  int64         `json:"rows"`
}

// Progress counts rows.
type Progress struct {
	// Published have been acknowledged, Dropped are not published because of the configuration.
	Published, Dropped int64
	Place              Place
}

// ReplayOptions configure a run.
type ReplayOptions struct {
	Selections []Selection
	Router     Router
	Sink       Sink
	// From is where to begin.
	From Place
	// Topic takes every record; "": the router decides.
	Topic string
	// Rate limits the events in a second; 0: no limit.
	Rate int
	// Report is called every Every, and at the end, also after an error. Its error ends the run.
	Report func(Progress) error
	Every  time.Duration
}

// ahead is how many batches are read before they are published, each of a quarter of a megabyte or one row.
const ahead = 8

// batchAt is a batch with the place before it.
type batchAt struct {
	batch *cdc.Batch
	place Place
}

// RunReplay publishes the selected rows. A row is published once or more if the run ends early and another one begins at the last place
// that was reported.
func RunReplay(ctx context.Context, o ReplayOptions) error {
	t := newTracker(o.From)
	running, ctx := errgroup.WithContext(ctx)
	batches, ended := make(chan batchAt, ahead), make(chan struct{})
	running.Go(func() error {
		defer close(batches)
		return readAll(ctx, o, batches)
	})
	running.Go(func() error { return send(ctx, o, t, batches) })
	running.Go(func() error {
		defer close(ended)
		return t.receive(ctx, o.Sink.Durable())
	})
	running.Go(func() error { return report(ctx, o, t, ended) })
	err := running.Wait()
	return errors.Join(err, o.Report(t.progress()))
}

func readAll(ctx context.Context, o ReplayOptions, out chan<- batchAt) error {
	after, read := o.From.Key, o.From.Rows // so far
	for i := o.From.Table; i < len(o.Selections); i++ {
		s := o.Selections[i]
		place := Place{i, after, read}
		err := tableread.Each(ctx, s.Table, s.Filter, after, nil, func(b *cdc.Batch, done tableread.Key) error {
			switch {
			case b == nil:
				place = Place{Table: i + 1, Rows: read}
			case done != place.Key:
				place = Place{i, done, read}
			}
			if b != nil {
				read += int64(b.Rows())
			}
			select {
			case out <- batchAt{b, place}:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err != nil {
			return err
		}
		after = tableread.Key{}
	}
	return nil
}

// send routes and publishes what was read, in pieces that keep to the rate.
func send(ctx context.Context, o ReplayOptions, t *tracker, batches <-chan batchAt) error {
	defer t.end()
	p := pace{rate: o.Rate, since: time.Now()}
	for r := range batches {
		if r.batch == nil {
			t.reached(r.place)
			continue
		}
		for _, piece := range pieces(r.batch, p.most()) {
			routed, err := t.next(piece, r.place)
			if err != nil {
				return err
			}
			if err := o.Router.Route(piece, routed); err != nil {
				return err
			}
			for i := range routed.Messages {
				if o.Topic != "" {
					routed.Messages[i].Topic = o.Topic
				}
			}
			if err := p.wait(ctx, piece.Rows()); err != nil {
				return err
			}
			t.sent(routed)
			if err := o.Sink.Send(ctx, routed); err != nil {
				return fmt.Errorf("publish: %w", err)
			}
		}
	}
	return ctx.Err()
}

// report says how far the run has come until it has ended.
func report(ctx context.Context, o ReplayOptions, t *tracker, ended <-chan struct{}) error {
	ticker := time.NewTicker(o.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := o.Report(t.progress()); err != nil {
				return err
			}
		}
	}
}

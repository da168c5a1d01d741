package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/replay"
)

// shownFirst is how many events a dry run shows.
const shownFirst = 10

// dryReplay counts the records of a dry run, and keeps the first.
type dryReplay struct {
	topics  map[string]int
	first   []printedRecord
	durable chan cdc.Durable
}

func (d *dryReplay) Send(ctx context.Context, r *cdc.Routed) error {
	for i := range r.Messages {
		d.topics[r.Messages[i].Topic]++
		if len(d.first) < shownFirst {
			d.first = append(d.first, printed(&r.Messages[i]))
		}
	}
	select {
	case d.durable <- cdc.Durable{First: r.Seq(), Last: r.Seq()}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *dryReplay) Durable() <-chan cdc.Durable { return d.durable }

// show routes the events and prints the counts and the first ten.
func (r *replayRun) show(ctx context.Context) error {
	if err := r.requireTopic(ctx); err != nil {
		return err
	}
	router, err := r.router()
	if err != nil {
		return err
	}
	dry := dryReplay{topics: map[string]int{}, durable: make(chan cdc.Durable, 1)}
	var counted replay.Progress
	err = replay.Run(ctx, replay.Options{
		Selections: r.selections, Router: router, Sink: &dry, Topic: r.state.Topic, Every: time.Minute,
		Report: func(p replay.Progress) error { counted = p; return nil },
	})
	if err != nil {
		return err
	}
	if counted.Published+counted.Dropped == 0 {
		return r.nothing()
	}
	r.app.printf("%s would be published in order of creation%s\n", display.Plural(int(counted.Published), "event"), droppedToo(counted.Dropped))
	for _, topic := range slices.Sorted(maps.Keys(dry.topics)) {
		r.app.printf("%-8s %s: %d\n", "topic", topic, dry.topics[topic])
	}
	for _, rec := range dry.first {
		r.app.printf("%s\n", eventLine(rec.Headers["ce_committime"], &rec))
		if !r.withHeaders {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(rec.Headers)) {
			r.app.printf("    %s: %s\n", display.Escaped(name), display.Escaped(rec.Headers[name]))
		}
	}
	return nil
}

// eventLine is an event on one line: time, topic, key, type and ID.
func eventLine(at string, r *printedRecord) string {
	key := "-"
	if r.Key != nil {
		key = display.OneLine(*r.Key)
	}
	return at + "  " + r.Topic + "  " + key + "  " + display.OneLine(r.Headers["ce_type"]) + "  " + display.OneLine(r.Headers["ce_id"])
}

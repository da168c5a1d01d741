package main

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/source"
	"github.com/cdc-relay/cdc-relay/internal/stages"
	"github.com/cdc-relay/cdc-relay/internal/stubs"
)

// letterOptions is nil without dead letters.
func letterOptions(c *config.Config, db source.Database, log *slog.Logger) *publisher.LetterOptions {
	l := &c.DeadLetter
	if !l.On() {
		return nil
	}
	return &publisher.LetterOptions{
		Topic: l.Topic, Index: l.Index(), Partitions: l.Partitions, Due: deadletter.NewDue(), MayStub: stubs.MayStub(c, db, log),
		Options: deadletter.Options{HoldKey: l.HoldKey, MaxKeys: l.MaxHeldKeys, MaxLetters: l.MaxHeldEvents},
	}
}

// newResolver makes what resolves letters while the relay leads.
func newResolver(c *config.Config, db source.Database, letters *publisher.LetterOptions, sink *publisher.Publisher, log *slog.Logger, reg prometheus.Registerer) (*deadletter.Resolver, error) {
	again := *c // whatever cannot be published stays a letter
	again.Errors.Unroutable, again.Errors.Malformed = cdc.PolicyDeadLetter, cdc.PolicyDeadLetter
	router, err := stages.RelayRouter(&again, db.Tables())
	if err != nil {
		return nil, err
	}
	r := deadletter.NewResolver(deadletter.ResolverOptions{
		Kafka: stages.KafkaOptions(c), Topic: letters.Topic, Index: letters.Index, Due: letters.Due,
		RetryAfter: c.DeadLetter.RetryAfter, MaxAttempts: c.DeadLetter.MaxAttempts, Passed: db.Passed, Stored: db.SlotPosition(),
		Row: func(ctx context.Context, l *deadletter.Letter) (*cdc.Batch, error) { return stubs.Row(ctx, db, l) },
	}, sink, router, log)
	r.Register(reg)
	return r, nil
}

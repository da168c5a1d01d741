package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/finding"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
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

// makeLetterTopics makes the topics of dead letters.
func (s *setup) makeLetterTopics(ctx context.Context, c *config.Config) error {
	l := &c.DeadLetter
	if !l.On() {
		return nil
	}
	if err := s.makeTopicsAs(ctx, c, []string{l.Topic}, kafka.LetterTopic(l.Partitions, stages.TopicSpec(c))); err != nil {
		return err
	}
	return s.makeTopicsAs(ctx, c, []string{l.Index()}, kafka.PositionTopic(stages.TopicSpec(c)))
}

// leftLetters are those in the default topic of a configuration that has no dead letters any more.
func leftLetters(ctx context.Context, c *config.Config) []finding.Finding {
	before := *c
	before.DeadLetter.Topic = config.DefaultLetterTopic(c.Database())
	list, _, err := stages.LetterDesk(&before).List(ctx, deadletter.Filter{})
	if err != nil || len(list) == 0 {
		return nil // as a rule there is no such topic
	}
	return []finding.Finding{{
		Severity: finding.Warn, Subject: "topic " + before.DeadLetter.Topic,
		Text: fmt.Sprintf("has %s, which nobody can publish, and later events of their keys pass", display.Plural(len(list), "dead letter")),
		Fix:  "name it as dead_letter.topic until `cdc-relay dlq count` says 0",
	}}
}

// letterFindings are about the topics of dead letters.
func (c *check) letterFindings(ctx context.Context, client *kafka.Client) []finding.Finding {
	l := &c.config.DeadLetter
	if !l.On() {
		return leftLetters(ctx, c.config)
	}
	d, err := client.Describe(ctx, []string{l.Topic, l.Index()}, "")
	if err != nil {
		return nil // the check of Kafka says so
	}
	var found []finding.Finding
	for i := range d.Topics {
		t, want := &d.Topics[i], l.Partitions
		if t.Name == l.Index() {
			want = 1
		}
		subject := "topic " + t.Name
		if err := t.LetterProblem(want); err != nil {
			found = append(found, finding.Failed(subject, err))
			continue
		}
		found = append(found, finding.Finding{Severity: finding.OK, Subject: subject, Text: "can hold dead letters"})
		if t.Name == l.Topic && t.MaxMessageBytes < kafka.LetterBytes {
			found = append(found, finding.Finding{
				Severity: finding.Warn, Subject: subject,
				Text: fmt.Sprintf("takes records up to %s: a large event is kept without its payload", display.Bytes(int64(t.MaxMessageBytes))),
				Fix:  fmt.Sprintf("set its max.message.bytes to %d", kafka.LetterBytes),
			})
		}
	}
	return found
}

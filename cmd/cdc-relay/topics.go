package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/finding"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
)

// makeTopics makes the topics that routes name, where the configuration says how.
func (s *setup) makeTopics(ctx context.Context, c *config.Config) error {
	topics := literalTopics(c)
	if c.Topics.Create == nil || len(topics) == 0 {
		return nil
	}
	p, err := newPublisher(c, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		return err
	}
	defer p.Kill()
	created, err := p.CreateTopics(ctx, topics)
	made := map[string]bool{}
	for _, name := range created {
		made[name] = true
	}
	for _, name := range topics {
		if err == nil || made[name] {
			s.app.printf("topic %s: %s\n", name, existsOr(made[name], "created"))
		}
	}
	return err
}

func existsOr(changed bool, how string) string {
	if changed {
		return how
	}
	return "exists"
}

// checkKafka looks at the cluster and at the topics that routes name, as the publisher would meet them.
func (c *check) checkKafka(ctx context.Context) []finding.Finding {
	p, err := newPublisher(c.config, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		return []finding.Finding{finding.Failed("kafka", err)}
	}
	defer p.Kill()
	topics := literalTopics(c.config)
	d, err := describe(ctx, p, topics)
	if err != nil {
		return []finding.Finding{finding.Failed("kafka", err)}
	}
	found := brokerFindings(d)
	for i := range d.Topics {
		found = append(found, c.topicFindings(&d.Topics[i])...)
	}
	if len(topics) < len(c.config.Routes) || len(topics) == 0 {
		found = append(found, finding.Finding{Severity: finding.Info, Subject: "topics", Text: "topics that rows name, or that templates make, are known only once an event comes"})
	}
	return found
}

// settleTimeout is how long a cluster that was just started may take to hand out its first producer id.
const settleTimeout = 10 * time.Second

// describe asks until the answer is not about to change: a coordinator that loads its state says so.
func describe(ctx context.Context, p *publisher.Publisher, topics []string) (publisher.Description, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		d, err := p.Describe(ctx, topics)
		var stop *cdc.StopError
		if err != nil || d.ProducerID == nil || errors.As(d.ProducerID, &stop) {
			return d, err
		}
		select {
		case <-ctx.Done():
			return d, nil
		case <-time.After(settleTimeout / 20):
		}
	}
}

func brokerFindings(d publisher.Description) []finding.Finding {
	var found []finding.Finding
	for _, b := range d.Brokers {
		if b.Err != nil {
			found = append(found, finding.Failed("kafka", b.Err))
		}
	}
	if d.ProducerID != nil {
		found = append(found, finding.Failed("kafka", d.ProducerID))
	}
	if len(found) == 0 {
		found = []finding.Finding{{Severity: finding.OK, Subject: "kafka", Text: fmt.Sprintf("%s and a producer id is to be had", answer(len(d.Brokers)))}}
	}
	if d.Fence != nil {
		found = append(found, finding.Finding{Severity: finding.Warn, Subject: "kafka", Text: d.Fence.Error(), Fix: cdc.Fix(d.Fence)})
	}
	return found
}

func answer(brokers int) string {
	if brokers == 1 {
		return "the broker answers"
	}
	return fmt.Sprintf("all %d brokers answer", brokers)
}

func (c *check) topicFindings(t *publisher.TopicInfo) []finding.Finding {
	subject := "topic " + t.Name
	switch {
	case t.Err != nil:
		return []finding.Finding{finding.Failed(subject, t.Err)}
	case t.Missing:
		return []finding.Finding{{Severity: finding.Info, Subject: subject, Text: "does not exist and will be made (topics.create)"}}
	}
	var found []finding.Finding
	warn := func(text, fix string) {
		found = append(found, finding.Finding{Severity: finding.Warn, Subject: subject, Text: text, Fix: fix})
	}
	if len(t.Leaderless) > 0 {
		warn(fmt.Sprintf("partitions %v have no leader, so nothing can be written to them", t.Leaderless), "bring their brokers back")
	}
	if len(t.UnderMinISR) > 0 {
		warn(fmt.Sprintf("partitions %v have fewer replicas in sync than min.insync.replicas (%d), so writes wait", t.UnderMinISR, t.MinISR), "bring the missing brokers back")
	}
	if t.CleanupPolicy == "compact" {
		warn("is compacted: only the last event of each key stays, and an event without a key is refused", "set cleanup.policy=delete, unless the events carry whole states")
	}
	if t.MinISR == 1 && t.Replicas > 1 {
		warn(fmt.Sprintf("has min.insync.replicas 1: an event acknowledged by one of %d replicas alone is lost with it", t.Replicas), "set min.insync.replicas=2")
	}
	if t.Settings != nil {
		found = append(found, finding.Finding{Severity: finding.Info, Subject: subject, Text: t.Settings.Error(), Fix: cdc.Fix(t.Settings)})
	}
	return append([]finding.Finding{{Severity: finding.OK, Subject: subject, Text: topicText(t)}}, found...)
}

func topicText(t *publisher.TopicInfo) string {
	text := plural(t.Partitions, "partition") + ", " + plural(t.Replicas, "replica")
	if t.MaxMessageBytes > 0 {
		text += fmt.Sprintf(", records up to %s", byteSize(int64(t.MaxMessageBytes)))
	}
	if t.Write == publisher.GrantUnknown {
		text += ", whether the relay may write is not told"
	}
	return text
}

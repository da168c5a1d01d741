package provision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/finding"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/stages"
)

// makePositionTopic makes the topic of positions for exactly-once delivery.
func (s *Setup) makePositionTopic(ctx context.Context, c *config.Config) error {
	if stages.PositionTopic(c) == "" {
		return nil
	}
	return s.makeTopicsAs(ctx, c, []string{c.Kafka.PositionTopic}, kafka.PositionTopic(stages.TopicSpec(c)))
}

// makeTopics makes the topics that routes name, where the configuration says how.
func (s *Setup) makeTopics(ctx context.Context, c *config.Config) error {
	topics := stages.RouteTopics(c)
	if c.Topics.Create == nil || len(topics) == 0 {
		return nil
	}
	return s.makeTopicsAs(ctx, c, topics, stages.TopicSpec(c))
}

func (s *Setup) makeTopicsAs(ctx context.Context, c *config.Config, topics []string, spec *kafka.TopicSpec) error {
	client, err := stages.KafkaClient(c)
	if err != nil {
		return err
	}
	created, err := client.EnsureTopics(ctx, topics, spec)
	made := map[string]bool{}
	for _, name := range created {
		made[name] = true
	}
	for _, name := range topics {
		if err == nil || made[name] {
			s.Printf("topic %s: %s\n", name, existsOr(made[name], "created"))
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

// checkKafka checks the cluster and the topics that routes name.
func (c *check) checkKafka(ctx context.Context) []finding.Finding {
	client, err := stages.KafkaClient(c.config)
	if err != nil {
		return []finding.Finding{finding.Failed("kafka", err)}
	}
	topics := stages.RouteTopics(c.config)
	d, err := describe(ctx, client, topics, kafka.TransactionalID(c.config.Kafka.TransactionalID, kafka.TransactionalPrefix+"check"))
	if err != nil {
		return []finding.Finding{finding.Failed("kafka", err)}
	}
	found := brokerFindings(d)
	if c.config.Kafka.TransactionalID == kafka.TransactionalNone {
		found = append(found, finding.Finding{
			Severity: finding.Info, Subject: "kafka",
			Text: "kafka.transactional_id is none: Kafka does not reject what an earlier relay still sends, so the order after a crash or a takeover is not guaranteed",
			Fix:  "leave the setting out, unless this Kafka has no transactions",
		})
	}
	refused := c.validateMissing(ctx, client, d.Topics)
	for i := range d.Topics {
		found = append(found, c.topicFindings(&d.Topics[i], refused[d.Topics[i].Name])...)
	}
	found = append(append(found, c.letterFindings(ctx, client)...), c.transactionFindings(ctx, client)...)
	if len(topics) < len(c.config.Routes) || len(topics) == 0 {
		found = append(found, finding.Finding{Severity: finding.Info, Subject: "topics", Text: "topics that rows name, or that templates make, are known only once an event comes"})
	}
	return found
}

// transactionFindings are about transactions that hold back consumers of the topics.
func (c *check) transactionFindings(ctx context.Context, client *kafka.Client) []finding.Finding {
	open, err := client.OpenTransactions(ctx, stages.Topics(c.config), func(t *kafka.OpenTransaction) bool {
		return time.Since(t.Written) > kafka.LongOpen
	})
	if err == nil {
		err = open.DeniedError()
	} else if !errors.Is(err, kafka.ErrTransactionsUnknown) {
		return nil // a broker that does not answer has a finding of its own
	}
	var found []finding.Finding
	for i := range open.All {
		problem := open.All[i].Problem(c.config.Kafka.TransactionalID)
		found = append(found, finding.Finding{Severity: finding.Warn, Subject: "topic " + open.All[i].Topic, Text: problem.Error(), Fix: cdc.Fix(problem)})
	}
	if err != nil {
		found = append(found, finding.Finding{Severity: finding.Info, Subject: "kafka", Text: err.Error(), Fix: cdc.Fix(err)})
	}
	return found
}

// startTimeout is how long a cluster that was just started may take to return its first producer ID.
const startTimeout = 10 * time.Second

// describe repeats the request while the coordinator loads its state.
func describe(ctx context.Context, client *kafka.Client, topics []string, transactionalID string) (kafka.Description, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		d, err := client.Describe(ctx, topics, transactionalID)
		var stop *cdc.StopError
		if err != nil || d.ProducerID == nil || errors.As(d.ProducerID, &stop) {
			return d, err
		}
		select {
		case <-ctx.Done():
			return d, nil
		case <-time.After(startTimeout / 20):
		}
	}
}

func brokerFindings(d kafka.Description) []finding.Finding {
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
		found = []finding.Finding{{Severity: finding.OK, Subject: "kafka", Text: fmt.Sprintf("%s and grants a producer ID", answer(len(d.Brokers)))}}
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

// validateMissing asks the brokers whether they would create what is missing.
func (c *check) validateMissing(ctx context.Context, client *kafka.Client, topics []kafka.TopicInfo) map[string]error {
	if c.config.Topics.Create == nil {
		return nil
	}
	var missing []string
	for i := range topics {
		if topics[i].Missing {
			missing = append(missing, topics[i].Name)
		}
	}
	return client.ValidateTopics(ctx, missing, stages.TopicSpec(c.config))
}

// topicFindings are about one topic. refused is why it cannot be created, if it is missing.
func (c *check) topicFindings(t *kafka.TopicInfo, refused error) []finding.Finding {
	subject := "topic " + t.Name
	switch {
	case t.Missing && refused != nil:
		return []finding.Finding{finding.Failed(subject, kafka.CreateError(t.Name, refused))}
	case t.Missing && c.config.Topics.Create != nil:
		return []finding.Finding{{Severity: finding.Info, Subject: subject, Text: "does not exist and will be made (topics.create)"}}
	case t.Err != nil:
		return []finding.Finding{finding.Failed(subject, t.Err)}
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

func topicText(t *kafka.TopicInfo) string {
	text := display.Plural(t.Partitions, "partition") + ", " + display.Plural(t.Replicas, "replica")
	if t.MaxMessageBytes > 0 {
		text += fmt.Sprintf(", records up to %s", display.Bytes(int64(t.MaxMessageBytes)))
	}
	if t.Write == kafka.GrantUnknown {
		text += ", whether the relay may write is not told"
	}
	return text
}

// makeLetterTopics makes the topics of dead letters.
func (s *Setup) makeLetterTopics(ctx context.Context, c *config.Config) error {
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

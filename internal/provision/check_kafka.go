package provision

import (
	"cmp"
	"context"
	"fmt"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// checkKafka checks the cluster and the topics that routes name.
func (c *check) checkKafka(ctx context.Context, r *cdc.Report) {
	client := app.KafkaClient(c.config)
	topics := app.RouteTopics(c.config)
	d, err := describe(ctx, client, topics, kafka.TransactionalID(c.config.Kafka.TransactionalID, kafka.TransactionalPrefix+"check"))
	if err != nil {
		r.Fail("kafka", err)
		return
	}
	checkBrokers(d, r)
	if c.config.Kafka.TransactionalID == kafka.TransactionalNone {
		r.Info("kafka", "leave the setting out, unless this Kafka has no transactions",
			"kafka.transactional_id is none: Kafka does not reject what an earlier relay still sends, so the order after a crash or a takeover is not guaranteed")
	}
	refused := c.validateMissing(ctx, client, d.Topics)
	for i := range d.Topics {
		c.checkTopic(&d.Topics[i], refused[d.Topics[i].Name], r)
	}
	c.checkLetters(ctx, client, r)
	if len(topics) < len(c.config.Routes) || len(topics) == 0 {
		r.Info("topics", "", "topics that rows name, or that templates make, are known only once an event comes")
	}
}

// describe repeats the request until Kafka has started.
func describe(ctx context.Context, client *kafka.Client, topics []string, transactionalID string) (d kafka.Description, err error) {
	ctx, cancel := context.WithTimeout(ctx, kafka.StartTimeout)
	defer cancel()
	_ = kafka.UntilStarted(ctx, func() error { // d has its error
		if d, err = client.Describe(ctx, topics, transactionalID); err != nil {
			return nil //nolint:nilerr // the cluster's, which is not repeated
		}
		return d.ProducerID
	})
	return d, err
}

func checkBrokers(d kafka.Description, r *cdc.Report) {
	grants := d.ProducerID == nil
	for _, b := range d.Brokers {
		if b.Err != nil {
			r.Fail("kafka", b.Err)
			grants = false
		}
	}
	if d.ProducerID != nil {
		r.Fail("kafka", d.ProducerID)
	}
	if grants {
		r.OK("kafka", "%s and grants a producer ID", answer(len(d.Brokers)))
	}
	if d.Fence != nil {
		r.Warn("kafka", cdc.Fix(d.Fence), "%v", d.Fence)
	}
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
	return client.ValidateTopics(ctx, missing, app.TopicSpec(c.config))
}

// checkTopic checks one topic. refused is why it cannot be created, if it is missing.
func (c *check) checkTopic(t *kafka.TopicInfo, refused error, r *cdc.Report) {
	subject := "topic " + t.Name
	switch {
	case t.Missing && refused != nil:
		r.Fail(subject, kafka.CreateError(t.Name, refused))
		return
	case t.Missing && c.config.Topics.Create != nil:
		r.Info(subject, "", "does not exist and will be made (topics.create)")
		return
	case t.Missing && c.config.Errors.UnknownTopic != cdc.PolicyStop:
		r.Warn(subject, "create it, set topics.create, or correct the route", "does not exist, and errors.unknown_topic is %s for its events", c.config.Errors.UnknownTopic)
		return
	case t.Err != nil:
		r.Fail(subject, t.Err)
		return
	}
	r.OK(subject, "%s", topicText(t))
	for i := range c.config.Routes {
		route := &c.config.Routes[i]
		if _, part := route.Placement(); part != nil && c.config.EventTopic(route.Topic) == t.Name {
			if id, ok := outbox.ParsePartition([]byte(part.Const)); ok && int(id) >= t.Partitions {
				problem := cdc.Fixable("add partitions to the topic, or correct the setting",
					"its last partition is %d, and routes[%d].partition is %d: an event of that route would be malformed", t.Partitions-1, i, id)
				if cmp.Or(c.config.Errors.Malformed, c.config.Errors.Unroutable, cdc.PolicyStop) != cdc.PolicyStop {
					r.Warn(subject, cdc.Fix(problem), "%v", problem)
				} else {
					r.Fail(subject, problem)
				}
			}
		}
	}
	if len(t.Leaderless) > 0 {
		r.Warn(subject, "bring their brokers back", "partitions %v have no leader, so nothing can be written to them", t.Leaderless)
	}
	if len(t.UnderMinISR) > 0 {
		r.Warn(subject, "bring the missing brokers back",
			"partitions %v have fewer replicas in sync than min.insync.replicas (%d), so writes wait", t.UnderMinISR, t.MinISR)
	}
	if t.CleanupPolicy == "compact" {
		r.Warn(subject, "set cleanup.policy=delete, unless the events carry whole states",
			"is compacted: only the last event of each key stays, and an event without a key is refused")
	}
	if t.MinISR == 1 && t.Replicas > 1 {
		r.Warn(subject, "set min.insync.replicas=2",
			"has min.insync.replicas 1: an event acknowledged by one of %d replicas alone is lost with it", t.Replicas)
	}
	if t.Settings != nil {
		r.Info(subject, cdc.Fix(t.Settings), "%v", t.Settings)
	}
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

// checkLeftLetters finds those in the default topic of a configuration that has no dead letters any more.
func (c *check) checkLeftLetters(ctx context.Context, r *cdc.Report) {
	before := *c.config
	before.DeadLetter.Topic = config.DefaultLetterTopic(c.config.Database())
	list, _, err := app.LetterDesk(&before).List(ctx, deadletter.Filter{})
	if err == nil && len(list) > 0 { // as a rule there is no such topic
		r.Warn("topic "+before.DeadLetter.Topic, "name it as dead_letter.topic until `cdc-relay dlq list --count` says 0",
			"has %s, which nobody can publish, and later events of their keys pass", display.Plural(len(list), "dead letter"))
	}
}

// checkLetters checks the topics of dead letters.
func (c *check) checkLetters(ctx context.Context, client *kafka.Client, r *cdc.Report) {
	l := &c.config.DeadLetter
	if !l.On() {
		c.checkLeftLetters(ctx, r)
		return
	}
	d, err := client.Describe(ctx, []string{l.Topic, l.Index()}, "")
	if err != nil {
		return // the check of Kafka says so
	}
	for i := range d.Topics {
		t, want := &d.Topics[i], l.Partitions
		if t.Name == l.Index() {
			want = 1
		}
		subject := "topic " + t.Name
		if err := t.LetterProblem(want); err != nil {
			r.Fail(subject, err)
			continue
		}
		r.OK(subject, "can hold dead letters")
		if t.Name == l.Topic && t.MaxMessageBytes < kafka.LargestRecord {
			r.Warn(subject, fmt.Sprintf("set its max.message.bytes to %d, or as high as the brokers allow", kafka.LargestRecord),
				"takes records up to %s: a larger event that cannot be published stops all others", display.Bytes(int64(t.MaxMessageBytes)))
		}
	}
}

package config

import (
	"strings"
	"time"
)

// DeadLetter says how events are kept that cannot be published.
type DeadLetter struct {
	// The compacted topic of this relay's dead letters; `setup` creates it and <topic>.index.
	Topic string `yaml:"topic,omitempty" jsonschema_extras:"x-default=<database>.dead-letters"`
	// Its number of partitions. It cannot be changed while there are dead letters.
	Partitions int `yaml:"partitions" jsonschema:"minimum=1,maximum=1000,default=8"`
	// Hold later events of a key until its dead letter is resolved. false: publish them at once, out of order.
	HoldKey bool `yaml:"hold_key" jsonschema:"default=true"`
	// How many dead letters and held events there may be. Beyond it nothing is published until some are resolved.
	MaxHeldEvents int `yaml:"max_held_events" jsonschema:"minimum=1,maximum=10000000,default=100000"`
	// Retries without a command.
	AutoRetry AutoRetry `yaml:"auto_retry"`
}

// AutoRetry says when dead letters are published again by the relay itself.
type AutoRetry struct {
	// The pause before an automatic retry; it doubles up to an hour. 0s: never.
	After time.Duration `yaml:"after" jsonschema:"default=0s" jsonschema_extras:"x-zero=true"`
	// How many automatic retries there are. Others do not count.
	Attempts int `yaml:"attempts" jsonschema:"minimum=1,maximum=1000,default=10"`
}

// On reports whether there are dead letters.
func (d *DeadLetter) On() bool { return d.Topic != "" }

// DefaultLetterTopic is the topic of a database's dead letters where the configuration names none.
func DefaultLetterTopic(database string) string { return database + ".dead-letters" }

// Index is the topic that says which dead letters there are.
func (d *DeadLetter) Index() string { return d.Topic + ".index" }

// deadLetter checks what dead letters need, and fills in their topic.
func (d *document) deadLetter(c *Config) {
	l := &c.DeadLetter
	if p := c.Errors.Policies(); p != p.Instead("") && l.Topic == "" && c.Database() != "" {
		l.Topic = DefaultLetterTopic(c.Database())
	}
	if !l.On() {
		return
	}
	if strings.Contains(l.Topic, "${") || topicFault(l.Topic) != "" {
		d.report("dead_letter.topic", "set it to a topic name", "would be %q, which %s", l.Topic, topicFault(l.Topic))
	}
	switch {
	case l.Topic == c.Kafka.PositionTopic || l.Index() == c.Kafka.PositionTopic:
		d.report("dead_letter.topic", "name another topic", "is kafka.position_topic")
	case c.Kafka.TransactionalID == "none":
		d.report("kafka.transactional_id", "leave it out", "is none, and dead letters need fencing: an earlier relay could still write to their index")
	case c.Source.MySQL != nil && c.Source.MySQL.ID == "":
		d.report("source.mysql.id", "set it to a name that no other relay on this Kafka has", "is missing, and dead letters need it: they are those of this source")
	}
}

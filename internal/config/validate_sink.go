package config

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

func (d *document) routes(c *Config) {
	if fault, _ := templateFault(c.TopicPrefix + "x"); fault != "" || strings.Contains(c.TopicPrefix, "${") {
		d.report("topic_prefix", "use letters, digits, dots, dashes and underscores, such as try-", "is %s, which no topic can begin with", d.text("topic_prefix"))
	}
	for i, r := range c.Routes {
		path := item("routes", i)
		d.expressions(r.Match, path+".match")
		d.placement(&r, path)
		if fault, fix := templateFault(r.Topic); r.Topic != "" && fault != "" {
			d.report(path+".topic", fix, "%s; it is %s", fault, d.text(path+".topic"))
		}
		if fault := topicFault(c.EventTopic(r.Topic)); topicFault(r.Topic) == "" && fault != "" && !d.bad("topic_prefix") {
			d.report(path+".topic", "shorten it, or topic_prefix", "with topic_prefix %s", fault)
		}
		if len(r.Match) == 0 && i+1 < len(c.Routes) && !d.bad(path+".match") && !d.bad(path) {
			d.report(path, "put it last, or give it a match", "matches every row, so that the routes after it are never reached")
		}
	}
}

// placement checks what a route's key and partition are made of.
func (d *document) placement(r *Route, path string) {
	key, partition := r.Placement()
	if key != nil && !d.badBelow(path+".key") {
		if err := key.Check(outbox.PartitionKey); err != nil {
			d.fault(path+".key", err)
		}
	}
	if partition != nil && !d.badBelow(path+".partition") {
		if err := partition.CheckPartition(); err != nil {
			d.fault(path+".partition", err)
		}
	}
}

// expressions checks regular expressions by column.
func (d *document) expressions(list map[string]string, path string) {
	groups := map[string]bool{}
	for _, column := range slices.Sorted(maps.Keys(list)) {
		at := dotted(path, column)
		re, err := outbox.FullMatch(list[column])
		if fault, ok := errors.AsType[*syntax.Error](err); ok {
			d.report(at, "correct "+d.text(at), "is not a regular expression (%s)", fault.Code)
			continue
		}
		if column == "" {
			d.report(at, "name a column", "is an empty name")
		}
		for _, group := range re.SubexpNames() {
			if groups[group] && strings.HasSuffix(path, ".match") { // a route's topic may use it
				d.report(at, "rename one", "has the group %s, as another one has", group)
			}
			groups[group] = group != ""
		}
	}
}

// maxTopic is Kafka's limit for topic names (Topic.MAX_NAME_LENGTH in
// org.apache.kafka.common.internals).
const maxTopic = 249

// templateFault returns what is wrong with a topic template, or "", and the fix.
func templateFault(template string) (fault, fix string) {
	fixed := regexp.MustCompile(`\$\{[^${}]+\}`).ReplaceAllString(template, "")
	switch {
	case strings.ContainsAny(fixed, "${}"):
		return "has a $, { or } that is not part of a ${name}", "write a column's value as ${name}, and a topic without these"
	case !regexp.MustCompile(`^[a-zA-Z0-9._-]*$`).MatchString(fixed):
		return "has a character other than letters, digits, dots, dashes and underscores", "leave it out: Kafka takes no other"
	case len(fixed) > maxTopic:
		return fmt.Sprintf("is longer than the %d characters that a topic may have", maxTopic), "shorten it"
	case template == "." || template == "..":
		return "is a name that Kafka does not take", "name another topic"
	default:
		return "", ""
	}
}

func topicFault(topic string) string {
	fault, _ := templateFault(topic)
	return fault
}

func (d *document) kafka(k *Kafka) {
	d.addresses(k.Brokers, "kafka.brokers")
	d.tls(k.TLS, "kafka.tls")
	d.sasl(k.SASL)
}

// transactionTimeout is that of package kafka.
const transactionTimeout = 60 * time.Second

// delivery checks what exactly-once delivery needs, and fills in the topic of positions.
func (d *document) delivery(c *Config) {
	if c.Kafka.PositionTopic == "" {
		c.Kafka.PositionTopic = c.Source.positionTopic()
	}
	if c.Delivery != ExactlyOnce {
		return
	}
	switch {
	case c.Kafka.TransactionalID == "none":
		d.report("kafka.transactional_id", "leave it out", "is none, and exactly-once delivery needs transactions")
	case c.Source.MySQL != nil && c.Source.MySQL.ID == "":
		d.report("source.mysql.id", "set it to a name that no other relay on this Kafka has", "is missing, and exactly-once delivery needs it: transactions are those of this source")
	case topicFault(c.Kafka.PositionTopic) != "":
		d.report("kafka.position_topic", "set it", "would be %q, which %s", c.Kafka.PositionTopic, topicFault(c.Kafka.PositionTopic))
	case c.Kafka.RequestTimeout >= transactionTimeout:
		d.report("kafka.request_timeout", "make it shorter", "must be less than %s, after which Kafka aborts a transaction", transactionTimeout)
	}
}

// positionTopic is the default of kafka.position_topic; "" if the source is not valid.
func (s *Source) positionTopic() string {
	parts := []string{"cdc-relay.positions"}
	switch {
	case s.MySQL != nil:
		parts = append(parts, s.MySQL.ID, s.MySQL.names.database)
	case s.Postgres != nil:
		parts = append(parts, s.Postgres.names.database, s.Postgres.Slot)
	}
	if slices.Contains(parts, "") {
		return ""
	}
	return strings.Join(parts, ".")
}

func (d *document) checkpoint(whole *Config) {
	c, s := &whole.Checkpoint, &whole.Source
	r := c.Redis
	if s.MySQL != nil && s.Postgres == nil && r == nil && c.File == "" && whole.Delivery != ExactlyOnce && !d.badBelow("checkpoint") {
		d.report("checkpoint", "set checkpoint.redis, or checkpoint.file", "is missing, and MySQL and MariaDB keep no position for a relay")
	}
	if r == nil {
		return
	}
	const path = "checkpoint.redis"
	if c.File != "" {
		d.report("checkpoint.file", "keep one of them", "is set beside checkpoint.redis")
	}
	if database := s.names().database; r.Key == "" && database != "" {
		r.Key = redisKey(database)
	}
	d.addresses(r.Addrs, path+".addrs")
	d.tls(r.TLS, path+".tls")
	d.command(r.PasswordCommand, &r.Password, path+".password")
	d.command(r.SentinelPasswordCommand, &r.SentinelPassword, path+".sentinel_password")
	switch r.Mode {
	case RedisStandalone:
		if len(r.Addrs) > 1 {
			d.report(path+".addrs", fmt.Sprintf("set %s.mode to sentinel or cluster", path), "has %d addresses, but mode standalone takes one", len(r.Addrs))
		}
	case RedisSentinel:
		if r.MasterName == "" {
			d.report(path+".master_name", "set it to the name that the sentinels know the master by", "is missing, and mode sentinel needs it")
		}
	case RedisCluster:
		if r.DB != 0 {
			d.wrong(path+".db", "0: a cluster has no other database", d.text(path+".db"))
		}
	}
	if r.Mode != RedisSentinel && (r.MasterName != "" || r.SentinelUsername != "" || !r.SentinelPassword.IsZero() || r.SentinelPasswordCommand != nil) {
		d.report(path, fmt.Sprintf("set %s.mode to sentinel, or remove them", path), "has settings for sentinels, but its mode is %s", r.Mode)
	}
}

// redisKey returns the default key. The braces are a hash tag: keys with the same one share a slot of
// a cluster.
func redisKey(database string) string {
	return "cdc-relay:{" + strings.NewReplacer("{", "_", "}", "_").Replace(database) + "}"
}

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Config is the whole configuration of one relay.
type Config struct {
	// The database whose committed rows are published.
	Source Source `yaml:"source" jsonschema:"required"`
	// The outbox tables. On PostgreSQL the publication contains all of them.
	Tables []Table `yaml:"tables" jsonschema:"minItems=1" jsonschema_extras:"x-default=[{name: public.outbox}]; on MySQL [{name: <database>.outbox}]"`
	// Topics for rows whose topic is NULL. The first route that matches decides.
	Routes []Route `yaml:"routes,omitempty"`
	// Put before the topic of every event, for a rehearsal or a namespace; not before topics of positions and dead letters.
	TopicPrefix string `yaml:"topic_prefix,omitempty" jsonschema:"pattern=^[a-zA-Z0-9._-]+$,maxLength=200,example=rehearsal."`
	// The CloudEvents source of all events (header ce_source).
	CESource string `yaml:"ce_source,omitempty" jsonschema:"example=/orders" jsonschema_extras:"x-default=/<database>/<table>"`
	// The Kafka cluster to publish to.
	Kafka Kafka `yaml:"kafka" jsonschema:"required"`
	// After a fault consumers get some events again, or each event once if they read with isolation.level=read_committed. exactly-once stores the position in Kafka.
	Delivery Delivery `yaml:"delivery" jsonschema:"enum=at-least-once,enum=exactly-once,default=at-least-once"`
	// How missing topics are handled.
	Topics Topics `yaml:"topics"`
	// Where the position is stored. Optional on PostgreSQL, whose slot stores it too. MySQL and MariaDB need it, unless delivery is exactly-once.
	Checkpoint Checkpoint `yaml:"checkpoint"`
	// Removes old events, and creates daily partitions ahead. Absent: nothing is removed or created.
	Retention *Retention `yaml:"retention,omitempty" jsonschema_extras:"x-optional=true"`
	// What to do with an event that cannot be published. stop: the relay stops before it and names it; dead_letter: it becomes a dead letter, with the later events of its key; drop: it is counted and logged.
	Errors Errors `yaml:"errors"`
	// How dead letters are kept: events for which errors says dead_letter.
	DeadLetter DeadLetter `yaml:"dead_letter"`
	// The pause before a failed connection or request is tried again; it doubles each time, with jitter.
	Retry Retry `yaml:"retry"`
	// What may be in flight between database and Kafka. After a crash at most this much, plus the open transaction, is published again.
	InFlight InFlight `yaml:"in_flight"`
	// The HTTP endpoint for /metrics, /livez, /readyz and /status.
	HTTP HTTP `yaml:"http"`
	// The log, on standard error.
	Log Log `yaml:"log"`
	// How long startup waits for a database, Kafka or checkpoint store that is unavailable. 0s: without limit. A wrong password or a missing object ends it at once.
	StartupTimeout time.Duration `yaml:"startup_timeout" jsonschema:"default=2m" jsonschema_extras:"x-zero=true"`
	// How long the relay may drain records in flight after SIGTERM. A second signal stops it at once.
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout" jsonschema:"default=20s"`

	moved []Warning
}

// Delivery is what consumers get after a fault.
type Delivery string

// The kinds of delivery.
const (
	AtLeastOnce Delivery = "at-least-once"
	ExactlyOnce Delivery = "exactly-once"
)

// EventTopic returns a topic that a row or a route names as Kafka has it.
func (c *Config) EventTopic(name string) string { return c.TopicPrefix + name }

// OwnTopics are the relay's own, which hold no events.
func (c *Config) OwnTopics() []string {
	topics := []string{c.Kafka.PositionTopic}
	if c.DeadLetter.On() {
		topics = append(topics, c.DeadLetter.Topic, c.DeadLetter.Index())
	}
	return topics
}

// Load reads and parses the file at path, see [Parse]. env looks up a variable, like [os.LookupEnv]. Errors are of class
// [cdc.ClassConfig].
func Load(path string, env func(string) (string, bool)) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, stop(unreadable(path, err))
	}
	return Parse(path, data, env)
}

func unreadable(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return cdc.Fixable("name yours with --config or CDC_RELAY_CONFIG", "configuration file %s does not exist", path)
	}
	if errors.Is(err, syscall.EISDIR) {
		return cdc.Fixable("name the file in it with --config or CDC_RELAY_CONFIG", "configuration file %s is a directory", path)
	}
	return cdc.Fixable("let the relay's user read it, or name another file with --config or CDC_RELAY_CONFIG", "configuration file %s cannot be read: %w", path, pathless(err))
}

// pathless returns an error of package os without the operation and the path.
func pathless(err error) error {
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

func stop(err error) error { return cdc.Stop(cdc.ClassConfig, "config", err, "") }

// Parse parses a configuration. name is the file's name in error messages; relative paths in the file start at its
// directory. env looks up a variable, like [os.LookupEnv].
//
// Errors are of class [cdc.ClassConfig] and, unless the file is not YAML, contain [Problems], all of them at once. No error
// contains a secret or the value of a reference.
func Parse(name string, data []byte, env func(string) (string, bool)) (*Config, error) {
	doc := newDocument(name, env)
	c := doc.decode(data)
	if c != nil {
		doc.validate(c)
	}
	if err := doc.err(); err != nil {
		return nil, stop(err)
	}
	return c, nil
}

// Migrate returns the file at path with its settings under their present names, and what has changed in it, if anything. Comments and
// order are kept.
func Migrate(path string) ([]byte, []Warning, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, stop(unreadable(path, err))
	}
	d := newDocument(path, nil)
	file := d.parse(data)
	if err := d.err(); err != nil {
		return nil, nil, stop(err)
	}
	if len(d.moved) == 0 {
		return data, nil, nil
	}
	out, err := yaml.Dump(file, yaml.WithLineWidth(-1), yaml.WithCompactSeqIndent(false))
	if err != nil {
		return nil, nil, fmt.Errorf("write configuration: %w", err)
	}
	return out, d.moved, nil
}

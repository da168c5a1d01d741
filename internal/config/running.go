package config

import (
	"context"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Checkpoint says where the position is stored: in Redis or in a file. On PostgreSQL the slot stores it too.
type Checkpoint struct {
	// Store it in Redis (or Valkey). On PostgreSQL the loss of Redis causes duplicates at most, never a lost event. On MySQL and MariaDB it is the only copy: turn persistence on (appendonly).
	Redis *Redis `yaml:"redis,omitempty" jsonschema_extras:"x-optional=true"`
	// Store it in a file, which is replaced atomically at every save. Not together with redis.
	File string `yaml:"file,omitempty" jsonschema:"format=path,example=/var/lib/cdc-relay/position"`
}

// Redis is a checkpoint store.
type Redis struct {
	// One server, a master watched by sentinels, or a cluster.
	Mode RedisMode `yaml:"mode" jsonschema:"enum=standalone,enum=sentinel,enum=cluster,default=standalone"`
	// Addresses, host:port: the server's, the sentinels', or some of the cluster's.
	Addrs []string `yaml:"addrs" jsonschema:"required,minItems=1,example=redis.example.com:6379"`
	// ACL user. Absent: the default user.
	Username string `yaml:"username,omitempty"`
	// Password. Read again at every connect.
	Password Secret `yaml:"password,omitempty" jsonschema:"example=${file:/run/secrets/redis}"`
	// A program and its arguments that print the password; see source.postgres.password_command. A slow program fails the first attempt, which is repeated with its output.
	PasswordCommand Command `yaml:"password_command,omitempty" jsonschema:"minItems=1"`
	// Database number; a cluster has only 0.
	DB int `yaml:"db" jsonschema:"minimum=0,maximum=65535,default=0"`
	// The master's name in the sentinels' configuration. Mode sentinel needs it.
	MasterName string `yaml:"master_name,omitempty" jsonschema:"example=mymaster"`
	// ACL user for the sentinels.
	SentinelUsername string `yaml:"sentinel_username,omitempty"`
	// Password for the sentinels. Read again at every connect.
	SentinelPassword Secret `yaml:"sentinel_password,omitempty"`
	// A program and its arguments that print the password for the sentinels.
	SentinelPasswordCommand Command `yaml:"sentinel_password_command,omitempty" jsonschema:"minItems=1"`
	// The key of the position. The braces are a hash tag, which keeps related keys in one slot of a cluster.
	Key string `yaml:"key" jsonschema_extras:"x-default=cdc-relay:{<database>}"`
	// TLS to the servers. Absent: none. `tls: {}` verifies the servers with the system's CAs.
	TLS *TLS `yaml:"tls,omitempty" jsonschema_extras:"x-optional=true"`

	command, sentinelCommand Secret
}

// Reveal returns the current password.
func (r *Redis) Reveal(ctx context.Context) (string, error) {
	return current(ctx, r.Password, r.command)
}

// RevealSentinel returns the current password for the sentinels.
func (r *Redis) RevealSentinel(ctx context.Context) (string, error) {
	return current(ctx, r.SentinelPassword, r.sentinelCommand)
}

// RedisMode is how Redis servers are organised.
type RedisMode string

// The modes.
const (
	RedisStandalone RedisMode = "standalone"
	RedisSentinel   RedisMode = "sentinel"
	RedisCluster    RedisMode = "cluster"
)

// Position says what to do when positions contradict each other.
type Position struct {
	// PostgreSQL only. If the slot is ahead of the checkpoint, Redis lost its last writes or the slot was moved by hand. stop: refuse to start until an administrator decides; slot: continue from the slot.
	Conflict cdc.Conflict `yaml:"conflict" jsonschema:"enum=stop,enum=slot,default=stop"`
}

// Errors says what to do with an event that cannot be published. stop: the relay stops before it and names it; dead_letter: it is
// kept in the topic of dead letters, with the later events of its key; drop: it is counted, logged and not published.
type Errors struct {
	// A row without a topic and without a matching route. stop: the relay stops before it and names it; dead_letter: it is kept in the topic of dead letters, with the later events of its key; drop: it is counted, logged and not published.
	Unroutable cdc.Policy `yaml:"unroutable" jsonschema:"enum=stop,enum=dead_letter,enum=drop,default=stop"`
	// A malformed row.
	Malformed cdc.Policy `yaml:"malformed,omitempty" jsonschema:"enum=stop,enum=dead_letter,enum=drop" jsonschema_extras:"x-default=that of unroutable"`
	// An event for a topic that does not exist.
	UnknownTopic cdc.Policy `yaml:"unknown_topic" jsonschema:"enum=stop,enum=dead_letter,enum=drop,default=stop"`
	// An event that is larger than its topic allows.
	TooLarge cdc.Policy `yaml:"too_large" jsonschema:"enum=stop,enum=dead_letter,enum=drop,default=stop"`
	// An event that a broker rejects for another reason that retries cannot fix.
	Rejected cdc.Policy `yaml:"rejected" jsonschema:"enum=stop,enum=dead_letter,enum=drop,default=stop"`
	// IDs of events that are not published, to get past a single bad event. Each is counted and logged.
	Skip []string `yaml:"skip,omitempty" jsonschema:"example=018f4e3c-7a10-7cc0-8000-2c7d3b0f9a41"`
	// What the relay does when it must stop. exit: end the process; park: keep it running, not ready, without retries.
	OnStop OnStop `yaml:"on_stop" jsonschema:"enum=exit,enum=park,default=exit"`
}

// OnStop is what a relay does when it must stop.
type OnStop string

// The choices.
const (
	OnStopExit OnStop = "exit"
	OnStopPark OnStop = "park"
)

// Retry is the pause before something that failed is tried again: a connection, a save, a request to Kafka. It doubles
// with each failure in a row and is jittered.
type Retry struct {
	// The first pause.
	Initial time.Duration `yaml:"initial" jsonschema:"default=200ms"`
	// The longest pause.
	Max time.Duration `yaml:"max" jsonschema:"default=10s"`
}

// Window limits what is in flight.
type Window struct {
	// The maximum number of events. A transaction larger than the window passes through it in parts, of up to 256 events.
	Events int `yaml:"events" jsonschema:"minimum=256,maximum=100000000,default=32768"`
	// The maximum memory for them. Most of it is used only where events go to hundreds of partitions.
	Bytes Size `yaml:"bytes" jsonschema:"default=8MiB"`
}

// HTTP is the endpoint for metrics and health.
type HTTP struct {
	// Address to listen on. Empty: no endpoint.
	Listen string `yaml:"listen" jsonschema:"default=:9464"`
	// Address of a second listener, for probes when web_config is set: /livez and /readyz alone, without TLS, password and reasons. Absent: none.
	HealthListen string `yaml:"health_listen,omitempty" jsonschema:"example=:9465"`
	// File that configures TLS and basic authentication of the endpoint, in the format of Prometheus' exporter-toolkit.
	WebConfig string `yaml:"web_config,omitempty" jsonschema:"format=path,example=web.yaml"`
	// Let callers of the page at / retry and drop dead letters. It needs a web_config with basic_auth_users, or with verified client certificates.
	Actions bool `yaml:"actions,omitempty"`
}

// Log is how the relay logs.
type Log struct {
	// The minimum level of log lines. SIGHUP applies a change to a running relay.
	Level LogLevel `yaml:"level" jsonschema:"enum=debug,enum=info,enum=warn,enum=error,default=info"`
	// JSON for machines, text for people.
	Format LogFormat `yaml:"format" jsonschema:"enum=json,enum=text,default=json"`
}

// LogLevel is a level of package slog by name.
type LogLevel string

// The levels.
const (
	LogDebug LogLevel = "debug"
	LogInfo  LogLevel = "info"
	LogWarn  LogLevel = "warn"
	LogError LogLevel = "error"
)

// LogFormat is the form of log lines.
type LogFormat string

// The forms.
const (
	LogJSON LogFormat = "json"
	LogText LogFormat = "text"
)

package config

import (
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Checkpoint says where the position is kept: in Redis or in a file; on PostgreSQL beside the slot, or in the
// slot alone.
type Checkpoint struct {
	// Keep it in Redis (or Valkey). On PostgreSQL losing Redis costs duplicates at most, never an event. On MySQL and MariaDB it is the only place: let it persist (appendonly).
	Redis *Redis `yaml:"redis,omitempty" jsonschema_extras:"x-optional=true"`
	// Keep it in a file, replaced atomically at every save. Not together with redis.
	File string `yaml:"file,omitempty" jsonschema:"format=path,example=/var/lib/cdc-relay/position"`
}

// Redis is a checkpoint store.
type Redis struct {
	// How the servers are organised: one server, one watched by sentinels, or a cluster.
	Mode RedisMode `yaml:"mode" jsonschema:"enum=standalone,enum=sentinel,enum=cluster,default=standalone"`
	// Addresses, host:port: the server's, the sentinels', or some of the cluster's.
	Addrs []string `yaml:"addrs" jsonschema:"required,minItems=1,example=redis.example.com:6379"`
	// ACL user. Absent: the default user.
	Username string `yaml:"username,omitempty"`
	// Password. Read again at every connect.
	Password Secret `yaml:"password,omitempty" jsonschema:"example=${file:/run/secrets/redis}"`
	// Database number; a cluster has only 0.
	DB int `yaml:"db" jsonschema:"minimum=0,maximum=65535,default=0"`
	// The name that the sentinels know the master by. Mode sentinel needs it.
	MasterName string `yaml:"master_name,omitempty" jsonschema:"example=mymaster"`
	// ACL user of the sentinels themselves.
	SentinelUsername string `yaml:"sentinel_username,omitempty"`
	// Password of the sentinels themselves.
	SentinelPassword Secret `yaml:"sentinel_password,omitempty"`
	// The key that holds the position. The braces keep related keys in one slot of a cluster.
	Key string `yaml:"key" jsonschema_extras:"x-default=cdc-relay:{<database>}"`
	// TLS to the servers. Absent: none. `tls: {}` verifies them against the system's authorities.
	TLS *TLS `yaml:"tls,omitempty" jsonschema_extras:"x-optional=true"`
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
	// PostgreSQL only. When the slot stands ahead of the checkpoint, either Redis lost its last writes or somebody moved the slot: stop and let a person decide, or go on from the slot.
	Conflict cdc.Conflict `yaml:"conflict" jsonschema:"enum=stop,enum=slot,default=stop"`
}

// Errors says what to do with an event that cannot be published.
type Errors struct {
	// A row that names no topic and that no route matches, or a malformed one. stop: the relay stops in front of it and names it; drop: it is counted, logged and not published.
	Unroutable cdc.Policy `yaml:"unroutable" jsonschema:"enum=stop,enum=drop,default=stop"`
	// An event for a topic that does not exist.
	UnknownTopic cdc.Policy `yaml:"unknown_topic" jsonschema:"enum=stop,enum=drop,default=stop"`
	// An event larger than its topic takes.
	TooLarge cdc.Policy `yaml:"too_large" jsonschema:"enum=stop,enum=drop,default=stop"`
	// An event that a broker refuses for another reason that no retry mends.
	Rejected cdc.Policy `yaml:"rejected" jsonschema:"enum=stop,enum=drop,default=stop"`
	// Ids of events not to publish: the way past a single bad one. Each is counted and logged.
	Skip []string `yaml:"skip,omitempty" jsonschema:"example=018f4e3c-7a10-7cc0-8000-2c7d3b0f9a41"`
	// What a stopped relay does: exit, or park: stay alive, not ready, and never retry by itself.
	OnStop OnStop `yaml:"on_stop" jsonschema:"enum=exit,enum=park,default=exit"`
}

// OnStop is what a relay does that needs a person.
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

// Window bounds what is on its way.
type Window struct {
	// The most events. A transaction larger than the window flows through it in parts.
	Events int `yaml:"events" jsonschema:"minimum=1,maximum=100000000,default=32768"`
	// The most memory for them. Most of it is used only where events go to hundreds of partitions.
	Bytes Size `yaml:"bytes" jsonschema:"default=8MiB"`
}

// HTTP is the endpoint for metrics and health.
type HTTP struct {
	// Address to listen on. Empty: no endpoint.
	Listen string `yaml:"listen" jsonschema:"default=:9464"`
	// File with TLS and basic authentication for the endpoint, in the format of Prometheus' exporter-toolkit.
	WebConfig string `yaml:"web_config,omitempty" jsonschema:"format=path,example=web.yaml"`
}

// Log is how the relay logs.
type Log struct {
	// The least severe lines to write.
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

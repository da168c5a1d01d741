package config

import (
	"context"

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

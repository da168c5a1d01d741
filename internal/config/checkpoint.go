package config

// Checkpoint says where the position is stored: in Redis or in a file. On PostgreSQL the slot stores it too.
type Checkpoint struct {
	// In Redis or Valkey. On MySQL and MariaDB it is the only copy: turn persistence on (appendonly).
	Redis *Redis `yaml:"redis,omitempty" jsonschema_extras:"x-optional=true"`
	// In a file, in place of redis.
	File string `yaml:"file,omitempty" jsonschema:"format=path,example=/var/lib/cdc-relay/position"`
}

// Redis is a checkpoint store.
type Redis struct {
	// One server, sentinels, or a cluster.
	Mode RedisMode `yaml:"mode" jsonschema:"enum=standalone,enum=sentinel,enum=cluster,default=standalone"`
	// host:port of the server, the sentinels, or some of the cluster.
	Addrs []string `yaml:"addrs" jsonschema:"required,minItems=1,example=redis.example.com:6379"`
	// ACL user.
	Username string `yaml:"username,omitempty"`
	// Its password.
	Password Secret `yaml:"password,omitempty" jsonschema:"example=${file:/run/secrets/redis}"`
	// In place of password.
	PasswordCommand Command `yaml:"password_command,omitempty" jsonschema:"minItems=1"`
	// Database number; a cluster has only 0.
	DB int `yaml:"db" jsonschema:"minimum=0,maximum=65535,default=0"`
	// The master's name at the sentinels.
	MasterName string `yaml:"master_name,omitempty" jsonschema:"example=mymaster"`
	// ACL user for the sentinels.
	SentinelUsername string `yaml:"sentinel_username,omitempty"`
	// Its password.
	SentinelPassword Secret `yaml:"sentinel_password,omitempty"`
	// In place of sentinel_password.
	SentinelPasswordCommand Command `yaml:"sentinel_password_command,omitempty" jsonschema:"minItems=1"`
	// The key of the position. The braces are a hash tag.
	Key string `yaml:"key" jsonschema_extras:"x-default=cdc-relay:{<database>}"`
	// Absent: plain text.
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

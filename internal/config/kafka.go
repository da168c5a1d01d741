package config

import "time"

// Kafka is the cluster to publish to.
type Kafka struct {
	// Bootstrap addresses, host:port.
	Brokers []string `yaml:"brokers" jsonschema:"required,minItems=1,example=kafka.example.com:9092"`
	// The client ID in brokers' logs and quotas.
	ClientID string `yaml:"client_id" jsonschema:"minLength=1,default=cdc-relay"`
	// Compression of record batches.
	Compression string `yaml:"compression" jsonschema:"enum=none,enum=gzip,enum=snappy,enum=lz4,enum=zstd,default=none"`
	// Absent: plain text.
	TLS *TLS `yaml:"tls,omitempty" jsonschema_extras:"x-optional=true"`
	// Absent: no SASL, or the client certificate of tls.
	SASL *SASL `yaml:"sasl,omitempty" jsonschema_extras:"x-optional=true"`
	// By it Kafka rejects late writes of a previous run. `auto`: `cdc-relay.` and a name derived from the source; `none`: no fencing.
	TransactionalID string `yaml:"transactional_id" jsonschema:"minLength=1,default=auto"`
	// Stores the position with exactly-once delivery; compacted, created by `setup`.
	PositionTopic string `yaml:"position_topic,omitempty" jsonschema:"pattern=^[a-zA-Z0-9._-]+$,maxLength=249" jsonschema_extras:"x-default=cdc-relay.positions.<database>.<slot>; on MySQL cdc-relay.positions.<id>.<database>"`
	// How long to wait for a broker's response before the request is sent again.
	RequestTimeout time.Duration `yaml:"request_timeout" jsonschema:"default=15s"`
	// The largest batch for a topic whose limit (max.message.bytes) cannot be read.
	MaxMessageBytes Size `yaml:"max_message_bytes" jsonschema:"default=1048588"`
}

// TLS is the client's side of a TLS connection.
type TLS struct {
	// PEM file of the CAs to trust. Absent: the system's CAs.
	CA string `yaml:"ca,omitempty" jsonschema:"format=path"`
	// PEM file of the client's certificate. Needs key.
	Cert string `yaml:"cert,omitempty" jsonschema:"format=path"`
	// PEM file of the client's private key. Needs cert.
	Key string `yaml:"key,omitempty" jsonschema:"format=path"`
	// The name in the server's certificate. Absent: the host.
	ServerName string `yaml:"server_name,omitempty"`
	// Accept any certificate, so that anybody between relay and server can read and change everything. For tests only.
	InsecureSkipVerify bool `yaml:"insecure_skip_verify,omitempty" jsonschema:"default=false"`
}

// SASL is how the relay authenticates to the brokers.
type SASL struct {
	// PLAIN sends the password in plain text, OAUTHBEARER and AWS_MSK_IAM a token: use tls.
	Mechanism Mechanism `yaml:"mechanism" jsonschema:"required,enum=PLAIN,enum=SCRAM-SHA-256,enum=SCRAM-SHA-512,enum=OAUTHBEARER,enum=AWS_MSK_IAM"`
	// For PLAIN and SCRAM.
	Username string `yaml:"username,omitempty" jsonschema:"example=cdc-relay"`
	// For PLAIN and SCRAM.
	Password Secret `yaml:"password,omitempty" jsonschema:"example=${file:/run/secrets/kafka}"`
	// In place of password.
	PasswordCommand Command `yaml:"password_command,omitempty" jsonschema:"minItems=1"`
	// For OAUTHBEARER: token_url, token or token_command.
	OAuth *OAuth `yaml:"oauth,omitempty" jsonschema_extras:"x-optional=true"`
	// For AWS_MSK_IAM.
	AWS *AWS `yaml:"aws,omitempty" jsonschema_extras:"x-optional=true"`
}

// Mechanism is a SASL mechanism.
type Mechanism string

// The mechanisms.
const (
	MechanismPlain       Mechanism = "PLAIN"
	MechanismScramSHA256 Mechanism = "SCRAM-SHA-256"
	MechanismScramSHA512 Mechanism = "SCRAM-SHA-512"
	MechanismOAuth       Mechanism = "OAUTHBEARER"
	MechanismMSK         Mechanism = "AWS_MSK_IAM"
)

// Topics says how missing topics are handled.
type Topics struct {
	// Create missing topics. Absent: errors.unknown_topic applies.
	Create *CreateTopics `yaml:"create,omitempty" jsonschema_extras:"x-optional=true"`
}

// CreateTopics says how a missing topic is created.
type CreateTopics struct {
	// -1: the broker's default. Changing it later breaks the order of keys.
	Partitions int `yaml:"partitions" jsonschema:"minimum=-1,maximum=200000,default=-1"`
	// -1: the broker's default.
	ReplicationFactor int `yaml:"replication_factor" jsonschema:"minimum=-1,maximum=32767,default=-1"`
	// Topic configuration, by Kafka's names.
	Config map[string]string `yaml:"config,omitempty"`
}

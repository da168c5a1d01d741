package config

import (
	"context"
	"time"
)

// Kafka is the cluster to publish to.
type Kafka struct {
	// Bootstrap addresses, host:port. A few brokers of the cluster are enough.
	Brokers []string `yaml:"brokers" jsonschema:"required,minItems=1,example=kafka.example.com:9092"`
	// The client ID in the logs and quotas of brokers.
	ClientID string `yaml:"client_id" jsonschema:"minLength=1,default=cdc-relay"`
	// Compression of record batches.
	Compression Compression `yaml:"compression" jsonschema:"enum=none,enum=gzip,enum=snappy,enum=lz4,enum=zstd,default=none"`
	// TLS to the brokers. Absent: none. `tls: {}` verifies the brokers with the system's CAs.
	TLS *TLS `yaml:"tls,omitempty" jsonschema_extras:"x-optional=true"`
	// SASL authentication. Absent: none, or the client certificate of tls.
	SASL *SASL `yaml:"sasl,omitempty" jsonschema_extras:"x-optional=true"`
	// Transactional ID. Kafka rejects late writes of a previous run with the same ID; a transaction is started only for exactly-once delivery. `auto`: `cdc-relay.` and a name derived from the WAL or binlog; with ACLs, grant WRITE on transactional IDs with the prefix `cdc-relay.`. `none`: no fence.
	TransactionalID string `yaml:"transactional_id" jsonschema:"minLength=1,default=auto"`
	// The topic that stores the position for exactly-once delivery: one partition, cleanup.policy=compact, of this relay alone. `setup` creates it. Default: cdc-relay.positions., the database and the slot; on MySQL and MariaDB cdc-relay.positions., source.mysql.id and the database.
	PositionTopic string `yaml:"position_topic,omitempty" jsonschema:"pattern=^[a-zA-Z0-9._-]+$,maxLength=249"`
	// How long to wait for the response of a broker before the connection is closed and the request is sent again.
	RequestTimeout time.Duration `yaml:"request_timeout" jsonschema:"default=15s"`
	// The largest record batch for a topic whose limit (max.message.bytes) cannot be read.
	MaxMessageBytes Size `yaml:"max_message_bytes" jsonschema:"default=1048588"`
}

// Compression is a codec for record batches.
type Compression string

// The codecs.
const (
	CompressionNone   Compression = "none"
	CompressionGzip   Compression = "gzip"
	CompressionSnappy Compression = "snappy"
	CompressionLZ4    Compression = "lz4"
	CompressionZstd   Compression = "zstd"
)

// TLS is the client's side of a TLS connection.
type TLS struct {
	// PEM file of the CAs to trust. Absent: the system's CAs.
	CA string `yaml:"ca,omitempty" jsonschema:"format=path"`
	// PEM file of the client's certificate. Needs key. Both are read again at every connect.
	Cert string `yaml:"cert,omitempty" jsonschema:"format=path"`
	// PEM file of the client's private key. Needs cert.
	Key string `yaml:"key,omitempty" jsonschema:"format=path"`
	// The name that the server's certificate must contain. Absent: the host.
	ServerName string `yaml:"server_name,omitempty"`
	// Accept any certificate: anybody between relay and server can read and change everything. Use it in tests only; the relay warns at every start.
	InsecureSkipVerify bool `yaml:"insecure_skip_verify,omitempty" jsonschema:"default=false"`
}

// SASL is how the relay authenticates to the brokers.
type SASL struct {
	// PLAIN sends the password in plain text, OAUTHBEARER and AWS_MSK_IAM a token: use them only with tls. AWS_MSK_IAM is for Amazon MSK.
	Mechanism Mechanism `yaml:"mechanism" jsonschema:"required,enum=PLAIN,enum=SCRAM-SHA-256,enum=SCRAM-SHA-512,enum=OAUTHBEARER,enum=AWS_MSK_IAM"`
	// The user name. PLAIN and SCRAM need it.
	Username string `yaml:"username,omitempty" jsonschema:"example=cdc-relay"`
	// The password. Read again at every connect.
	Password Secret `yaml:"password,omitempty" jsonschema:"example=${file:/run/secrets/kafka}"`
	// A program and its arguments that print the password; see source.postgres.password_command.
	PasswordCommand Command `yaml:"password_command,omitempty" jsonschema:"minItems=1"`
	// Where the token comes from. OAUTHBEARER needs it.
	OAuth *OAuth `yaml:"oauth,omitempty" jsonschema_extras:"x-optional=true"`
	// The AWS account and region. AWS_MSK_IAM needs it.
	AWS *AWS `yaml:"aws,omitempty" jsonschema_extras:"x-optional=true"`

	command Secret
}

// Reveal returns the current password.
func (s *SASL) Reveal(ctx context.Context) (string, error) {
	return current(ctx, s.Password, s.command)
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
	// Number of partitions. -1: the broker's default. Changing it later moves keys to other partitions and breaks their order, so choose enough.
	Partitions int `yaml:"partitions" jsonschema:"minimum=-1,maximum=200000,default=-1"`
	// Number of replicas. -1: the broker's default.
	ReplicationFactor int `yaml:"replication_factor" jsonschema:"minimum=-1,maximum=32767,default=-1"`
	// Topic configuration, by Kafka's names.
	Config map[string]string `yaml:"config,omitempty"`
}

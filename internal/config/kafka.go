package config

import "time"

// Kafka is the cluster to publish to.
type Kafka struct {
	// Addresses, host:port, to find the cluster by. A few of its brokers are enough.
	Brokers []string `yaml:"brokers" jsonschema:"required,minItems=1,example=kafka.example.com:9092"`
	// The name that brokers log and hold quotas for.
	ClientID string `yaml:"client_id" jsonschema:"minLength=1,default=cdc-relay"`
	// How batches are compressed.
	Compression Compression `yaml:"compression" jsonschema:"enum=none,enum=gzip,enum=snappy,enum=lz4,enum=zstd,default=none"`
	// TLS to the brokers. Absent: none. `tls: {}` verifies them against the system's authorities.
	TLS *TLS `yaml:"tls,omitempty" jsonschema_extras:"x-optional=true"`
	// Authentication. Absent: none, or the client certificate of tls.
	SASL *SASL `yaml:"sasl,omitempty" jsonschema_extras:"x-optional=true"`
	// The name by which Kafka refuses what an earlier run of this relay left on its way, so that nothing late of it gets between what this run publishes. No transaction is begun. `auto`: `cdc-relay.` and a name of the log's own; with ACLs, grant WRITE on transactional ids with the prefix `cdc-relay.`. `none`: no such fence.
	TransactionalID string `yaml:"transactional_id" jsonschema:"minLength=1,default=auto"`
	// How long a broker may take to answer a request before the connection is given up and the request is sent again.
	RequestTimeout time.Duration `yaml:"request_timeout" jsonschema:"default=15s"`
	// The largest record batch to send to a topic whose own limit (max.message.bytes) cannot be read.
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
	// PEM file of the authorities to trust. Absent: the system's.
	CA string `yaml:"ca,omitempty" jsonschema:"format=path"`
	// PEM file of the client's certificate. Needs key. Both are read again at every connect.
	Cert string `yaml:"cert,omitempty" jsonschema:"format=path"`
	// PEM file of the client's private key. Needs cert.
	Key string `yaml:"key,omitempty" jsonschema:"format=path"`
	// The name that the server's certificate must carry, if it is not the host's.
	ServerName string `yaml:"server_name,omitempty"`
	// Accept any certificate: anybody on the way can read and change everything. For tests; each start warns.
	InsecureSkipVerify bool `yaml:"insecure_skip_verify,omitempty" jsonschema:"default=false"`
}

// SASL is how the relay authenticates to the brokers.
type SASL struct {
	// PLAIN sends the password as it is: use it with tls only.
	Mechanism Mechanism `yaml:"mechanism" jsonschema:"required,enum=PLAIN,enum=SCRAM-SHA-256,enum=SCRAM-SHA-512"`
	// The user.
	Username string `yaml:"username" jsonschema:"required,minLength=1,example=cdc-relay"`
	// The password. Read again at every connect.
	Password Secret `yaml:"password" jsonschema:"required,minLength=1,example=${file:/run/secrets/kafka}"`
}

// Mechanism is a SASL mechanism.
type Mechanism string

// The mechanisms.
const (
	MechanismPlain       Mechanism = "PLAIN"
	MechanismScramSHA256 Mechanism = "SCRAM-SHA-256"
	MechanismScramSHA512 Mechanism = "SCRAM-SHA-512"
)

// Topics says what happens to topics that do not exist.
type Topics struct {
	// Make topics that do not exist. Absent: an unknown topic is a matter of errors.unknown_topic.
	Create *CreateTopics `yaml:"create,omitempty" jsonschema_extras:"x-optional=true"`
}

// CreateTopics is how a missing topic is made.
type CreateTopics struct {
	// Number of partitions. -1: the broker's default. Changing it later breaks the order of keys, so choose enough.
	Partitions int `yaml:"partitions" jsonschema:"minimum=-1,maximum=200000,default=-1"`
	// Number of replicas. -1: the broker's default.
	ReplicationFactor int `yaml:"replication_factor" jsonschema:"minimum=-1,maximum=32767,default=-1"`
	// Topic settings, by Kafka's names.
	Config map[string]string `yaml:"config,omitempty"`
}

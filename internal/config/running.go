package config

import "time"

// Retry is the pause before something that failed is tried again: a connection, a save, a request to Kafka. It doubles
// with each failure in a row and is jittered.
type Retry struct {
	// The first pause.
	Initial time.Duration `yaml:"initial" jsonschema:"default=200ms"`
	// The longest pause.
	Max time.Duration `yaml:"max" jsonschema:"default=10s"`
}

// InFlight limits what is in flight.
type InFlight struct {
	// The maximum number of events.
	Events int `yaml:"events" jsonschema:"minimum=256,maximum=100000000,default=32768"`
	// The maximum memory for them.
	Bytes Size `yaml:"bytes" jsonschema:"default=8MiB"`
}

// HTTP is the endpoint for metrics and health.
type HTTP struct {
	// Address to listen on. Empty: no endpoint.
	Listen string `yaml:"listen" jsonschema:"default=:9464"`
	// A second listener for probes: /livez and /readyz without TLS and password.
	HealthListen string `yaml:"health_listen,omitempty" jsonschema:"example=:9465"`
	// File with TLS and passwords, in the format of Prometheus' exporter-toolkit.
	WebConfig string `yaml:"web_config,omitempty" jsonschema:"format=path,example=web.yaml"`
	// Let the page at / retry and drop dead letters. It needs a web_config that authenticates.
	Actions bool `yaml:"actions,omitempty"`
	// Users of web_config who may do so; the others only look. Absent: all who log in.
	Operators []string `yaml:"operators,omitempty" jsonschema:"example=alice"`
	// Other relays, which the page shows: their addresses, or dns+http://name:9464 for every address of a name.
	Peers []string `yaml:"peers,omitempty" jsonschema:"example=http://relay-2:9464"`
	// User of the web_config of peers, by which this relay asks them.
	PeersUser string `yaml:"peers_user,omitempty"`
	// Its password.
	PeersPassword Secret `yaml:"peers_password,omitempty" jsonschema:"example=${file:/run/secrets/peers}"`
	// Serve classic buckets of histograms, too, for a Prometheus that does not scrape native ones.
	ClassicHistograms bool `yaml:"classic_histograms,omitempty"`
	// Serve the label topic. Without it counters are of all topics together.
	TopicLabel bool `yaml:"topic_label" jsonschema:"default=true"`
}

// Log is how the relay logs.
type Log struct {
	// SIGHUP applies a change to a running relay.
	Level string `yaml:"level" jsonschema:"enum=debug,enum=info,enum=warn,enum=error,default=info"`
	// JSON for machines, text for people.
	Format string `yaml:"format" jsonschema:"enum=json,enum=text,default=json"`
}

package testenv

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// clusterID is a UUID in Kafka's notation. It must not start with a dash, which would make it an option.
func clusterID(id uuid.UUID) string {
	id[0] &= 0x7f
	return base64.RawURLEncoding.EncodeToString(id[:])
}

func (b *Broker) settings() (map[string]string, error) {
	replicas := strconv.Itoa(min(3, len(b.cluster.brokers)))
	majority := strconv.Itoa(min(3, len(b.cluster.brokers))/2 + 1)
	settings := map[string]string{
		"process.roles":                                    "broker,controller",
		"node.id":                                          strconv.Itoa(b.ID),
		"controller.quorum.voters":                         b.cluster.voters(),
		"controller.listener.names":                        string(ListenerController),
		"inter.broker.listener.name":                       string(ListenerPlain),
		"log.dirs":                                         b.inst.path("data"),
		"auto.create.topics.enable":                        "false",
		"default.replication.factor":                       replicas,
		"min.insync.replicas":                              majority,
		"offsets.topic.replication.factor":                 replicas,
		"offsets.topic.num.partitions":                     "4",
		"transaction.state.log.replication.factor":         replicas,
		"transaction.state.log.min.isr":                    majority,
		"transaction.state.log.num.partitions":             "4",
		"share.coordinator.state.topic.replication.factor": replicas,
		"share.coordinator.state.topic.min.isr":            majority,
		"share.coordinator.state.topic.num.partitions":     "4",
		"group.initial.rebalance.delay.ms":                 "0",
		"num.network.threads":                              "2",
		"num.io.threads":                                   "4",
		"log.cleaner.dedupe.buffer.size":                   "16777216",
		"broker.session.timeout.ms":                        b.session(),
		"broker.heartbeat.interval.ms":                     "500",
		"controller.quorum.election.timeout.ms":            "500",
		"controller.quorum.fetch.timeout.ms":               "1000",
		"controller.quorum.election.backoff.max.ms":        "500",
		"replica.lag.time.max.ms":                          "3000",
	}
	b.listen(settings)
	if b.cluster.options.Secure {
		if err := b.secure(settings); err != nil {
			return nil, err
		}
	}
	return settings, nil
}

// session is short in a cluster, so that its controller soon notices a killed broker. A broker that is alone leads nothing while its own
// controller misses its heartbeats, which a busy machine delays. Killed, it cannot register again before the session ends.
func (b *Broker) session() string {
	if len(b.cluster.brokers) > 1 {
		return "3000"
	}
	return "30000"
}

func (k *KafkaCluster) voters() string {
	voters := make([]string, 0, len(k.brokers))
	for _, b := range k.brokers {
		voters = append(voters, fmt.Sprintf("%d@%s", b.ID, b.ports[ListenerController].addr()))
	}
	return strings.Join(voters, ",")
}

func (b *Broker) listen(settings map[string]string) {
	protocols := map[Listener]string{
		ListenerPlain: "PLAINTEXT", ListenerController: "PLAINTEXT", ListenerProxied: "PLAINTEXT",
		ListenerTLS: "SSL", ListenerSASL: "SASL_PLAINTEXT", ListenerSASLTLS: "SASL_SSL",
	}
	var listeners, advertised, security []string
	for _, l := range b.cluster.listeners() {
		listeners = append(listeners, fmt.Sprintf("%s://%s", l, b.ports[l].addr()))
		advertised = append(advertised, fmt.Sprintf("%s://%s", l, b.Addr(l)))
		security = append(security, fmt.Sprintf("%s:%s", l, protocols[l]))
	}
	settings["listeners"] = strings.Join(listeners, ",")
	settings["advertised.listeners"] = strings.Join(advertised, ",")
	settings["listener.security.protocol.map"] = strings.Join(security, ",")
}

// secure configures the TLS and SASL listeners.
func (b *Broker) secure(settings map[string]string) error {
	keystore, err := b.keystore()
	if err != nil {
		return err
	}
	maps.Copy(settings, map[string]string{
		"ssl.keystore.type":       "PEM",
		"ssl.keystore.location":   keystore,
		"ssl.truststore.type":     "PEM",
		"ssl.truststore.location": b.cluster.Certs.CAFile,
		"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
	})
	for _, l := range []Listener{ListenerSASL, ListenerSASLTLS} {
		prefix := "listener.name." + strings.ToLower(string(l)) + "."
		settings[prefix+"plain.sasl.jaas.config"] = fmt.Sprintf(
			"org.apache.kafka.common.security.plain.PlainLoginModule required user_%s=%q;", KafkaUser, KafkaPassword)
		for _, mechanism := range []string{"scram-sha-256", "scram-sha-512"} {
			settings[prefix+mechanism+".sasl.jaas.config"] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
		}
	}
	return nil
}

func renderProperties(settings map[string]string) string {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s=%s\n", key, settings[key])
	}
	return text.String()
}

package provision

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/finding"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// The check fails where the brokers would not create a topic, and creates none.
func TestCheckValidatesNewTopics(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	check := &check{config: &config.Config{
		Kafka:  config.Kafka{Brokers: c.ListenAddrs()},
		Routes: []config.Route{{Topic: "orders"}},
	}}
	for replicas, severity := range map[int]finding.Severity{1: finding.Info, 3: finding.Fail, -1: finding.Info} {
		check.config.Topics.Create = &config.CreateTopics{Partitions: 4, ReplicationFactor: replicas}
		var report finding.Report
		check.checkKafka(t.Context(), &report)
		found := report.Findings
		if i := slices.IndexFunc(found, func(f finding.Finding) bool { return f.Subject == "topic orders" }); i < 0 || found[i].Severity != severity {
			t.Errorf("%d replicas on one broker: %v", replicas, found)
		}
	}
}

// The check warns of brokers that take the requests for the fence and do not fence, unless no fence is asked for, and says
// what is at risk then.
func TestCheckWarnsWithoutFence(t *testing.T) {
	for cluster, warned := range map[string]bool{"redpanda.7f0d5a0a-0000-4000-8000-000000000000": true, "redpandas-are-cute-22ch": false} {
		for _, id := range []string{kafka.TransactionalAuto, "orders", kafka.TransactionalNone} {
			c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ClusterID(cluster))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			var report finding.Report
			(&check{config: &config.Config{Kafka: config.Kafka{Brokers: c.ListenAddrs(), TransactionalID: id}}}).checkKafka(t.Context(), &report)
			found := report.Findings
			has := slices.ContainsFunc(found, func(f finding.Finding) bool {
				return f.Severity == finding.Warn && strings.Contains(f.Text, "Redpanda") && f.Fix != ""
			})
			says := slices.ContainsFunc(found, func(f finding.Finding) bool { return strings.Contains(f.Text, "transactional_id is none") })
			if says != (id == kafka.TransactionalNone) {
				t.Errorf("transactional ID %s: %v", id, found)
			}
			if want := warned && id != kafka.TransactionalNone; has != want {
				t.Errorf("cluster %s, transactional ID %s: warned %t, want %t: %v", cluster, id, has, want, found)
			}
		}
	}
}

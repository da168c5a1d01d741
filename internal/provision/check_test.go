package provision

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/router"
)

// The check fails where the brokers would not create a topic, and creates none. A topic that is missing fails only where an event for
// it would stop the relay.
func TestCheckValidatesNewTopics(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	check := &check{config: &config.Config{
		Kafka:  config.Kafka{Brokers: c.ListenAddrs(), ClientID: "cdc-relay", RequestTimeout: 15 * time.Second},
		Routes: []config.Route{{Topic: "orders"}},
	}}
	create := func(replicas int) *config.CreateTopics {
		return &config.CreateTopics{Partitions: 4, ReplicationFactor: replicas}
	}
	for name, tt := range map[string]struct {
		create   *config.CreateTopics
		unknown  cdc.Policy
		severity cdc.Severity
	}{
		"one replica":         {create(1), cdc.PolicyStop, cdc.SeverityInfo},
		"three replicas":      {create(3), cdc.PolicyStop, cdc.SeverityFail},
		"default of brokers":  {create(-1), cdc.PolicyStop, cdc.SeverityInfo},
		"missing":             {nil, cdc.PolicyStop, cdc.SeverityFail},
		"missing, a letter":   {nil, cdc.PolicyDeadLetter, cdc.SeverityWarn},
		"missing, to be lost": {nil, cdc.PolicyDrop, cdc.SeverityWarn},
	} {
		check.config.Topics.Create, check.config.Errors.UnknownTopic = tt.create, tt.unknown
		var report cdc.Report
		check.checkKafka(t.Context(), &report)
		found := report.Findings
		if i := slices.IndexFunc(found, func(f cdc.Finding) bool { return f.Subject == "topic orders" }); i < 0 || found[i].Severity != tt.severity {
			t.Errorf("%s: %v", name, found)
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
			var report cdc.Report
			(&check{config: &config.Config{Kafka: config.Kafka{Brokers: c.ListenAddrs(), ClientID: "cdc-relay", RequestTimeout: 15 * time.Second, TransactionalID: id}}}).checkKafka(t.Context(), &report)
			found := report.Findings
			has := slices.ContainsFunc(found, func(f cdc.Finding) bool {
				return f.Severity == cdc.SeverityWarn && strings.Contains(f.Text, "Redpanda") && f.Fix != ""
			})
			says := slices.ContainsFunc(found, func(f cdc.Finding) bool { return strings.Contains(f.Text, "transactional_id is none") })
			if says != (id == kafka.TransactionalNone) {
				t.Errorf("transactional ID %s: %v", id, found)
			}
			if want := warned && id != kafka.TransactionalNone; has != want {
				t.Errorf("cluster %s, transactional ID %s: warned %t, want %t: %v", cluster, id, has, want, found)
			}
		}
	}
}

// The check names columns of another software's table that mean here something else than there, or may.
func TestCheckNotesColumns(t *testing.T) {
	zone, err := cdc.LoadZone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	layout, err := outbox.Mapped(map[string]outbox.Part{
		"event_id": outbox.Of("id"), "event_type": outbox.Of("type"), "payload": outbox.Of("body"),
		"tenant_id": outbox.Of("retry_after"),
	})
	if err != nil {
		t.Fatal(err)
	}
	columns := append(layout.Columns(), "created_at") // a header reads it
	needs := func(_, column string) bool { return slices.Contains(columns, column) }
	for typ, zones := range map[cdc.Type]map[*cdc.Zone]string{
		cdc.TypeLocalTime: {nil: "info  table app.outbox: a time without a zone is read as UTC: created_at. Fix: set tables[2].time_zone if its writers use another.", zone: ""},
		cdc.TypeTime:      {nil: "", zone: "warn  table app.outbox: tables[2].time_zone has no effect: no column that is read is a time without a zone. Fix: remove it."},
	} {
		table := &cdc.Table{Schema: "app", Name: "outbox", Columns: []cdc.Column{{Name: "id"}, {Name: "created_at", Type: typ}, {Name: "available_at", Type: cdc.TypeLocalTime}, {Name: "retry_after"}}}
		for z, want := range zones {
			var report cdc.Report
			layout.Zone = z
			noteColumns(2, &app.Table{Table: router.Table{Name: outbox.Name{Schema: "app", Table: "outbox"}, Layout: layout}}, table, needs, &report)
			var got []string
			for _, f := range report.Findings {
				got = append(got, f.String())
			}
			want := strings.TrimPrefix(want+"\ninfo  table app.outbox: column available_at is not read: an event is published when it is committed.", "\n")
			if strings.Join(got, "\n") != want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "\n"), want)
			}
		}
	}
}

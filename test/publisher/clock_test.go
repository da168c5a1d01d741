package publisher

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// A topic that rejects old records accepts a batch that has waited for longer than it allows.
func TestBatchWaitsLongerThanATopicAllows(t *testing.T) {
	const allowed = 2 * time.Second
	newTopic(t, shared, "waits", 1, map[string]string{"message.timestamp.before.max.ms": "2000", "min.insync.replicas": "2"})
	s := open(t, publisher.Options{Kafka: kafka.Options{Brokers: shared.Bootstrap()}})
	s.send(t, numbered("waits", 0, 10, 3)...)
	waited := time.After(2 * allowed)
	<-waited
	setTopic(t, shared, "waits", "min.insync.replicas", "1")
	durable(t, s, 1)
}

// The error of a wrong clock names the clock, and no event is dropped.
func TestWrongClock(t *testing.T) {
	newTopic(t, shared, "clock", 1, map[string]string{"message.timestamp.before.max.ms": "3600000", "message.timestamp.after.max.ms": "3600000"})
	for _, wrong := range []time.Duration{-2 * time.Hour, 2 * time.Hour} {
		s := open(t, publisher.Options{
			Kafka: kafka.Options{Brokers: shared.Bootstrap()}, Rejected: cdc.PolicyDrop,
			Timing: publisher.Timing{Patience: 500 * time.Millisecond, Now: func() time.Time { return time.Now().Add(wrong) }},
		})
		s.send(t, numbered("clock", 0, 10, 3)...)
		err := s.await(t, soon, 1)
		var stop *cdc.StopError
		if !errors.As(err, &stop) || stop.Reason != "clock" {
			t.Errorf("clock wrong by %s: %v", wrong, err)
		}
		t.Log(cdc.Explain(err))
	}
}

// setTopic changes a setting of a topic.
func setTopic(t *testing.T, k *testenv.KafkaCluster, topic, name, value string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.Bootstrap()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	setting := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	setting.Name, setting.Value = name, &value
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	r.Configs = append(r.Configs, setting)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, r)
	res, err := req.RequestWith(t.Context(), cl)
	if err == nil {
		err = kerr.ErrorForCode(res.Resources[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

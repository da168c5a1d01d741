package publisher_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
)

func TestOptionsAreChecked(t *testing.T) {
	brokers := kafka.Options{Brokers: []string{"k:1"}}
	for _, c := range []struct {
		opts publisher.Options
		says string
	}{
		{publisher.Options{}, "kafka.brokers"},
		{publisher.Options{Kafka: brokers, Compression: "brotli"}, "zstd"},
		{publisher.Options{Kafka: brokers, TooLarge: "shrug"}, "stop or drop"},
		{publisher.Options{Kafka: brokers, Create: &kafka.TopicSpec{}}, "topics.create"},
		{publisher.Options{Kafka: brokers, MaxMessageBytes: -1}, "negative"},
	} {
		_, err := publisher.New(c.opts, logger(t), prometheus.NewRegistry())
		var stop *cdc.StopError
		if !errors.As(err, &stop) || stop.Class != cdc.ClassConfig || !strings.Contains(cdc.Explain(err), c.says) {
			t.Errorf("options %+v: error %v, want one that says %q", c.opts, err, c.says)
		}
	}
}

func TestMetricsCanBeRegisteredAgain(t *testing.T) {
	reg := prometheus.NewRegistry()
	for range 2 {
		if _, err := publisher.New(publisher.Options{Kafka: kafka.Options{Brokers: []string{"k:1"}}}, logger(t), reg); err != nil {
			t.Fatal(err)
		}
	}
}

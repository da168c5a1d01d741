package publisher_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
)

func TestMetricsCanBeRegisteredAgain(t *testing.T) {
	reg := prometheus.NewRegistry()
	for range 2 {
		if _, err := publisher.New(publisher.Options{Kafka: kafka.Options{Brokers: []string{"k:1"}}}, logger(t), reg); err != nil {
			t.Fatal(err)
		}
	}
}

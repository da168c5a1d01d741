package publisher

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
)

// The error of a wrong clock names the clock, and no event is dropped.
func TestWrongClock(t *testing.T) {
	newTopic(t, shared, "clock", 1, map[string]string{"message.timestamp.before.max.ms": "3600000", "message.timestamp.after.max.ms": "3600000"})
	for _, wrong := range []time.Duration{-2 * time.Hour, 2 * time.Hour} {
		s := open(t, publisher.Options{
			Kafka: kafka.Options{Brokers: shared.Bootstrap()}, Policies: cdc.Policies{Rejected: cdc.PolicyDrop},
			Timing: publisher.Timing{Patience: 500 * time.Millisecond, Now: func() time.Time { return time.Now().Add(wrong) }},
		})
		s.send(t, numbered("clock", 0, 10, 3)...)
		err := s.await(t, soon, 1)
		var stop *cdc.StopError
		if !errors.As(err, &stop) || stop.Reason != "clock" || !strings.Contains(cdc.Explain(err), "the time of this machine") || strings.Contains(cdc.Explain(err), "id-0") {
			t.Errorf("clock wrong by %s: %v", wrong, err)
		}
		t.Log(cdc.Explain(err))
	}
}

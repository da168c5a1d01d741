package publisher_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
)

const positions = "positions"

// openGroups opens a publisher of groups, whose barrier and claim are committed.
func openGroups(t *testing.T, c *kfake.Cluster) *publisher.Publisher {
	t.Helper()
	createTopic(t, c.ListenAddrs(), positions, 1, map[string]string{"cleanup.policy": "compact"})
	opts := options(c)
	opts.PositionTopic, opts.Timing.MetadataInterval, opts.Dropped = positions, 20*time.Millisecond, func(string) {}
	p, err := publisher.New(opts, logger(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	if err := p.Open(t.Context(), "cdc-relay.test"); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"barrier", "position"} {
		if _, err := p.Commit(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// Positions are found although somebody has added partitions to their topic while the relay runs.
func TestPositionStaysInItsPartition(t *testing.T) {
	c := newCluster(t, 1, 1)
	p := openGroups(t, c)
	growTopic(t, c, positions, 3) // the key belongs to another partition now
	asked := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: positions, Observe: true, Count: -1})
	eventually(t, "the publisher to have learnt of it", func() bool { return asked.Hits() > 2 })
	if _, err := p.Commit(t.Context(), "position", []byte("here")); err != nil {
		t.Fatal(err)
	}
	if value, _, err := p.LastPosition(t.Context(), "position", kafka.Committed); err != nil || string(value) != "here" {
		t.Errorf("found %q, %v", value, err)
	}
}

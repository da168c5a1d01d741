package publisher_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// The version of a request is lowered to what the broker supports.
func TestOldBrokers(t *testing.T) {
	for name, v := range map[string]*kversion.Versions{
		"2.4": kversion.V2_4_0(), "2.8": kversion.V2_8_0(), "3.9": kversion.V3_9_0(), "4.0": kversion.V4_0_0(),
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 2, 4, kfake.MaxVersions(v))
			most, _ := v.LookupMaxKeyVersion(produceKey)
			var version int16
			c.ControlKey(produceKey, func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				version = req.GetVersion()
				return nil, nil, false
			})
			opts := options(c)
			opts.Create = &kafka.TopicSpec{Partitions: 2, ReplicationFactor: 1}
			s := open(t, opts)
			s.send(t, numbered(0, 40, 9)...)
			s.send(t, to("made", numbered(0, 40, 9)...)...)
			s.answered(t, 2)
			inOrder(t, c.ListenAddrs(), 40, 9)
			if version > most || version < 8 {
				t.Errorf("produce version %d, the broker knows up to %d", version, most)
			}
			d, err := kafka.NewClient(opts.Kafka).Describe(t.Context(), []string{"t", "made"}, "")
			if err != nil || len(d.Topics) != 2 || d.Topics[0].Err != nil || d.Topics[0].MaxMessageBytes == 0 {
				t.Errorf("described as %+v, %v", d, err)
			}
		})
	}
}

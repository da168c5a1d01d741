package publisher_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// Every line about an event has its ID, key and topic.
func TestLinesNameTheEvent(t *testing.T) {
	for want, c := range map[string]struct {
		err    *kerr.Error
		policy cdc.Policy
	}{
		"event dropped by policy": {kerr.InvalidRecord, cdc.PolicyDrop},
		"publishing stops":        {kerr.InvalidRecord, cdc.PolicyStop},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			cluster := newCluster(t, 1, 1)
			cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: c.err, Count: 1})
			opts := options(cluster)
			opts.Rejected, opts.Dropped = c.policy, func(string) {}
			p, log := logged(t, opts)
			testenv.Must(t, p.Send(t.Context(), &cdc.Routed{Batch: &cdc.Batch{Seq: 1, Txs: []cdc.Tx{{}}}, Messages: []cdc.Message{msg("k", "1")}}))
			<-p.Durable()
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, want) && strings.Contains(line, ` event_id=k/1 key=k topic=t `) {
					return
				}
			}
			t.Errorf("no line %q with the event:\n%s", want, log)
		})
	}
}

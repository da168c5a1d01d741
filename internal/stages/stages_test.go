package stages

import (
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/config"
)

func TestRetryReachesEveryStage(t *testing.T) {
	c := &config.Config{Retry: config.Retry{Initial: 3 * time.Second, Max: 7 * time.Second}}
	p := publisherOptions(c)
	r := RelayOptions(c, nil)
	for stage, have := range map[string]config.Retry{
		"publisher": {Initial: p.RetryInitial, Max: p.RetryMax}, "relay": {Initial: r.RetryInitial, Max: r.RetryMax},
	} {
		if have != c.Retry {
			t.Errorf("the %s retries after %+v, want %+v", stage, have, c.Retry)
		}
	}
}

package publisher_test

import (
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The pauses between the attempts of a batch double, each within its jitter, up to the longest.
func TestPausesDouble(t *testing.T) {
	const attempts = 8
	c := newCluster(t, 1, 1)
	opts := options(c)
	opts.RetryInitial, opts.RetryMax = 40*time.Millisecond, 160*time.Millisecond
	s := open(t, opts)
	s.answered(t, s.send(t, msg("k", "0")))
	refusing := onProduce(kerr.NotEnoughReplicas, attempts)
	var mu sync.Mutex
	var at []time.Time
	c.ControlKey(produceKey, func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		mu.Lock()
		at = append(at, time.Now())
		mu.Unlock()
		return nil, nil, false
	})
	c.Fault(refusing)
	s.answered(t, s.send(t, msg("k", "1")))
	mu.Lock()
	defer mu.Unlock()
	if len(at) != attempts+1 {
		t.Fatalf("%d attempts, want %d", len(at), attempts+1)
	}
	pause := opts.RetryInitial
	for i := range attempts {
		if took := at[i+1].Sub(at[i]); took < pause/2 { // the machine may be slow, never too fast
			t.Errorf("pause %d took %s, want about %s", i, took, pause)
		}
		pause = min(2*pause, opts.RetryMax)
	}
}

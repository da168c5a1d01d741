package publisher_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// With random errors, except rejected records: each key's messages are first seen in order, none is missing, and each
// batch is answered once.
func TestRandomErrorsKeepOrder(t *testing.T) {
	runs := 20
	if testing.Short() {
		runs = 3
	}
	for range runs {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { trouble(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

func trouble(t *testing.T, rng *rand.Rand) {
	t.Helper()
	c, armed := deafCluster(t, 1+rng.IntN(3), 1+rng.IntN(8), false)
	var calm atomic.Bool
	seeded := rand.New(rand.NewPCG(rng.Uint64(), 0))
	w := &watcher{}
	c.ControlKey(produceKey, func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		w.note(batches(req))
		if calm.Load() {
			return nil, nil, false
		}
		switch seeded.IntN(12) {
		case 0:
			return nil, net.ErrClosed, true // not appended, the connection is gone
		case 1:
			armed.Store(1) // appended, or whatever comes first, and the answer is lost
		case 2, 3:
			errs := []*kerr.Error{
				kerr.NotEnoughReplicasAfterAppend, kerr.NotLeaderForPartition, kerr.RequestTimedOut, kerr.UnknownServerError,
				kerr.OutOfOrderSequenceNumber, kerr.MessageTooLarge, kerr.UnknownTopicOrPartition,
			}
			c.Fault(kfake.Fault{
				Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Partitions: []int32{int32(seeded.IntN(8))},
				Err: errs[seeded.IntN(len(errs))], When: func(req kmsg.Request) bool { return batches(req)[0].n > 1 },
			})
		}
		return nil, nil, false
	})
	opts := options(c)
	opts.SetInFlight(1 + rng.IntN(5))
	opts.SetMaxBatchBytes(200 + rng.IntN(5000))
	opts.Timing.Patience = time.Minute
	s := open(t, opts)
	const rounds = 80
	n, keys := 0, 1+rng.IntN(20)
	for range rounds {
		size := rng.IntN(20)
		s.send(t, numbered(n, size, keys)...)
		n += size
		if rng.IntN(10) == 0 {
			c.ShufflePartitionLeaders()
		}
	}
	calm.Store(true)
	s.answered(t, rounds)
	inOrder(t, c.ListenAddrs(), n, keys)
	w.sequences(t)
}

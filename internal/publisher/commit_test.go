package publisher

import (
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// A commit is answered once: the loop does not wait for a caller that has left with the failure of the transaction.
func TestCommitIsAnsweredOnce(t *testing.T) {
	request := &commitRequest{done: make(chan struct{})}
	l := &loop{failure: &failure{err: cdc.ErrRewind}}
	txn := &kafkaTransaction{loop: l, phase: ending, request: request}
	l.txn = txn
	l.reportFailure()
	txn.ended(nil) // must not block
	if <-request.done; request.err == nil {
		t.Error("the failure was lost")
	}
}

// A start that takes long is not asked for a position before it has claimed one: the next batches could be in the transaction by the
// time the relay gets to it.
func TestNothingIsAskedForBeforeTheClaim(t *testing.T) {
	for number, want := range map[uint64]bool{1: false, 2: false, 3: true} {
		now := time.Now()
		txn := &kafkaTransaction{loop: &loop{now: now}, number: number, committedAt: now.Add(-2 * idleInterval)}
		if got := txn.checkEnd(); got != want {
			t.Errorf("commit %d: %v", number, got)
		}
	}
}

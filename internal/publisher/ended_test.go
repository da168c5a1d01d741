package publisher

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// A commit is answered once: the loop does not wait for a caller that has left with the failure of the group.
func TestCommitIsAnsweredOnce(t *testing.T) {
	request := &commitRequest{done: make(chan commitResult, 1)}
	l := &loop{group: &group{phase: ending, request: request}, failure: &failure{err: cdc.ErrRewind}}
	l.reportFailure()
	ended{}.apply(l) // must not block
	if res := <-request.done; res.err == nil {
		t.Error("the failure was lost")
	}
}
